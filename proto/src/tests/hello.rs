//! Who talks with whom.

use crate::hello::{Hello, HelloError, PROTOCOL_VERSION, Version};

fn hello(major: u16, minor: u16, cluster: &str) -> Hello {
    Hello {
        version: Version { major, minor },
        cluster: cluster.into(),
        build: format!("{major}.{minor}.9"),
    }
}

#[test]
fn hello_carries_version_cluster_and_build() {
    let hello = Hello::new(&"lab".parse().unwrap());
    assert_eq!(hello.version, PROTOCOL_VERSION);
    assert_eq!(hello.cluster, "lab");
    assert_eq!(hello.build, env!("CARGO_PKG_VERSION"));
}

#[test]
fn same_major_agrees_on_lower_minor() {
    let (old, new) = (hello(1, 6, "lab"), hello(1, 7, "lab"));
    assert_eq!(old.agree(&new), Ok(old.version));
    assert_eq!(new.agree(&old), Ok(old.version));
}

#[test]
fn nonconsecutive_minors_are_refused_by_both() {
    let (old, new) = (hello(1, 3, "lab"), hello(1, 5, "lab"));
    assert_eq!(
        old.agree(&new).unwrap_err().to_string(),
        "the other side speaks protocol 1.5 (build \"1.5.9\"), this one 1.3 (build \"1.3.9\"): \
         upgrade this one, by one release after the other"
    );
    let upgrade = new.agree(&old).unwrap_err().to_string();
    assert!(upgrade.contains("upgrade the other side"), "{upgrade}");
}

#[test]
fn other_majors_are_refused_by_both() {
    let (old, new) = (hello(1, 3, "lab"), hello(2, 0, "lab"));
    assert_eq!(
        old.agree(&new).unwrap_err().to_string(),
        "the other side speaks protocol 2.0 (build \"2.0.9\"), this one 1.3 (build \"1.3.9\"): \
         upgrade this one"
    );
    assert_eq!(
        new.agree(&old).unwrap_err().to_string(),
        "the other side speaks protocol 1.3 (build \"1.3.9\"), this one 2.0 (build \"2.0.9\"): \
         upgrade the other side"
    );
}

#[test]
fn other_clusters_are_refused_by_both() {
    let (ours, theirs) = (hello(1, 0, "lab"), hello(1, 0, "prod"));
    let refused = HelloError::OtherCluster {
        ours: "lab".into(),
        theirs: "prod".into(),
    };
    assert_eq!(
        refused.to_string(),
        "the other side belongs to cluster \"prod\", this one to \"lab\""
    );
    assert_eq!(ours.agree(&theirs), Err(refused));
    assert!(theirs.agree(&ours).is_err());
}

#[test]
fn longer_hello_of_later_version_decodes() {
    let later = hello(1, 9, "lab");
    let mut frame = later.encode().unwrap()[4..].to_vec();
    frame.extend([1, 2, 3]);
    assert_eq!(Hello::decode(&frame), Ok(later));
}

/// Any two builds must be able to tell why they disagree, so these bytes never change.
#[test]
fn hello_bytes_never_change() {
    let frame = hello(1, 300, "lab").encode().unwrap();
    let expected = [b"\0\0\0\x0f\x01\xac\x02\x03lab".as_slice(), b"\x071.300.9"].concat();
    assert_eq!(frame, expected);
}
