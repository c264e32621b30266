//! Names read and written, and those that are none.

use crate::name::{ClusterName, MemberName, NameError, Role};

#[test]
fn member_name_roundtrips() {
    for role in Role::ALL {
        let uri = format!("spiffe://lab/{role}/leaf-0.rack_1");
        let member: MemberName = uri.parse().unwrap();
        assert_eq!(member.to_string(), uri);
        assert_eq!(member.cluster().as_str(), "lab");
        assert_eq!((member.role(), member.name()), (role, "leaf-0.rack_1"));
    }
}

#[test]
fn cluster_name_roundtrips() {
    let lab: ClusterName = "lab".parse().unwrap();
    assert_eq!(lab.uri(), "spiffe://lab");
    assert_eq!(ClusterName::from_uri("spiffe://lab"), Ok(lab));
    assert!(ClusterName::from_uri("lab").is_err());
    assert!(ClusterName::from_uri("spiffe://lab/agent/h0").is_err());
}

#[test]
fn foreign_uris_are_rejected() {
    for uri in [
        "",
        "spiffe://",
        "https://lab/agent/h0",
        "spiffe://lab/agent",
        "spiffe://lab/agent/h0/x",
        "SPIFFE://lab/agent/h0",
    ] {
        let refused = uri.parse::<MemberName>().unwrap_err();
        assert_eq!(refused, NameError::NotOurs(uri.to_owned()));
    }
}

#[test]
fn invalid_member_name_is_refused() {
    for bad in [
        "",
        ".",
        "..",
        "-rf",
        "h 0",
        "h\n0",
        "h\0",
        "hä",
        &"h".repeat(64),
    ] {
        let uri = format!("spiffe://lab/agent/{bad}");
        let refused = uri.parse::<MemberName>().unwrap_err();
        assert_eq!(refused, NameError::BadName(bad.to_owned()));
    }
    assert!(
        format!("spiffe://lab/agent/{}", "h".repeat(63))
            .parse::<MemberName>()
            .is_ok()
    );
}

#[test]
fn unknown_role_is_named() {
    let refused = "spiffe://lab/root/h0".parse::<MemberName>().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "\"root\" is not a role: use one of coordinator, agent, driver, operator, viewer"
    );
}
