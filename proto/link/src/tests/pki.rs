//! Certificates and keys on disk.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use super::cluster::Cluster;
use crate::pki::{
    AUTHORITY_CERTIFICATE_FILE, AUTHORITY_KEY_FILE, Authority, KeyRequest, MEMBER_CERTIFICATE_FILE,
    MEMBER_KEY_FILE, PkiError, Validity, files,
};
use crate::{Identity, PeerRefusal, Role};
use reweave_common::error::error_chain;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn load_error(dir: &Path) -> PkiError {
    match Identity::load(dir) {
        Ok(_) => panic!("{} was loaded", dir.display()),
        Err(error) => error,
    }
}

#[test]
fn keys_are_for_their_owner_alone() {
    let cluster = Cluster::new("lab");
    cluster.agent();
    let (authority, member) = (cluster.dir("authority"), cluster.dir("h0"));
    assert_eq!(mode(&authority), 0o700);
    assert_eq!(mode(&authority.join(AUTHORITY_KEY_FILE)), 0o600);
    assert_eq!(mode(&authority.join(AUTHORITY_CERTIFICATE_FILE)), 0o644);
    assert_eq!(mode(&member), 0o700);
    assert_eq!(mode(&member.join(MEMBER_KEY_FILE)), 0o600);
    assert_eq!(mode(&member.join(MEMBER_CERTIFICATE_FILE)), 0o644);
    let files = fs::read_dir(&member).unwrap().count();
    assert_eq!(
        files, 3,
        "nothing else is left behind, and not the authority's key"
    );
}

#[test]
fn readable_private_key_is_rejected() {
    let cluster = Cluster::new("lab");
    cluster.agent();
    let key = cluster.dir("h0").join(MEMBER_KEY_FILE);
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let error = load_error(&cluster.dir("h0"));
    assert!(matches!(error, PkiError::TooOpen { mode: 0o644, .. }));
    let text = error.to_string();
    assert!(text.contains(&key.display().to_string()), "{text}");
    assert!(
        text.contains("(mode 0644)") && text.contains("chmod 600"),
        "{text}"
    );

    let key = cluster.dir("authority").join(AUTHORITY_KEY_FILE);
    for mode in [0o604, 0o640] {
        fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        let loaded = Authority::load(&cluster.dir("authority"));
        assert!(matches!(loaded, Err(PkiError::TooOpen { mode: found, .. }) if found == mode));
    }
}

#[test]
fn root_shares_key_with_group() {
    let (root, user) = (0, 1000);
    for (mode, owner, is_secret) in [
        (0o600, user, true),
        (0o640, root, true),
        (0o440, root, true),
        (0o640, user, false),
        (0o660, root, false),
        (0o644, root, false),
    ] {
        let found = files::is_secret(mode, owner);
        assert_eq!(found, is_secret, "mode {mode:04o} of {owner}");
    }
}

#[test]
fn authority_is_never_overwritten() {
    let cluster = Cluster::new("lab");
    let dir = cluster.dir("authority");
    let read = |file| fs::read(dir.join(file)).unwrap();
    let before = [read(AUTHORITY_CERTIFICATE_FILE), read(AUTHORITY_KEY_FILE)];
    for present in [AUTHORITY_CERTIFICATE_FILE, AUTHORITY_KEY_FILE] {
        let alone = cluster.dir(&format!("only-{present}"));
        fs::create_dir(&alone).unwrap();
        fs::copy(dir.join(present), alone.join(present)).unwrap();
        for dir in [&dir, &alone] {
            let again = Authority::create(dir, "lab");
            assert!(matches!(again, Err(PkiError::Exists { .. })));
        }
        assert_eq!(fs::read_dir(&alone).unwrap().count(), 1);
    }
    assert_eq!(
        [read(AUTHORITY_CERTIFICATE_FILE), read(AUTHORITY_KEY_FILE)],
        before
    );
}

/// Two processes may create a cluster in one place at the same time.
#[test]
fn new_file_never_replaces_existing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    files::write_new(&path, "first", files::PRIVATE_MODE).unwrap();
    let second = files::write_new(&path, "second", files::PRIVATE_MODE);
    assert!(matches!(second, Err(PkiError::Exists { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");
}

#[test]
fn loaded_authority_signs() {
    let cluster = Cluster::new("lab");
    let loaded = Authority::load(&cluster.dir("authority")).unwrap();
    assert_eq!(loaded.cluster().as_str(), "lab");
    let dir = cluster.dir("h1");
    let member = loaded.issue(Role::Agent, "h1", Validity::day(), &dir);
    assert_eq!(member.unwrap().to_string(), "spiffe://lab/agent/h1");
    let identity = Identity::load(&dir).unwrap();
    assert_eq!(identity.member().to_string(), "spiffe://lab/agent/h1");
    assert_eq!(identity.problem(SystemTime::now()), None);
}

#[test]
fn certificate_lasts_day_or_as_requested() {
    let cluster = Cluster::new("lab");
    let hours = |hours| SystemTime::now() + Duration::from_hours(hours);
    let short = cluster.agent();
    assert_eq!(short.problem(hours(23)), None);
    assert!(matches!(
        short.problem(hours(25)),
        Some(PeerRefusal::Expired { .. })
    ));
    let year = Validity::lasting(Duration::from_hours(24 * 365)).unwrap();
    let long = cluster.member_for(Role::Agent, "h1", year);
    assert_eq!(long.problem(hours(24 * 364)), None);
    let error = Validity::lasting(Duration::from_hours(24 * 4000)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "4000 days are too long for a certificate; the longest is 3653"
    );
    let error = Validity::lasting(Duration::ZERO).unwrap_err();
    assert!(error.to_string().contains("good for nothing"), "{error}");
}

#[test]
fn reissued_member_gets_new_key() {
    let cluster = Cluster::new("lab");
    let key = || fs::read(cluster.dir("h0").join(MEMBER_KEY_FILE)).unwrap();
    cluster.agent();
    let before = key();
    cluster.agent();
    assert_ne!(before, key());
}

#[test]
fn missing_or_broken_file_is_named() {
    let cluster = Cluster::new("lab");
    let dir = cluster.dir("h0");
    for file in [
        MEMBER_CERTIFICATE_FILE,
        MEMBER_KEY_FILE,
        AUTHORITY_CERTIFICATE_FILE,
    ] {
        cluster.agent();
        let path = dir.join(file);
        fs::write(&path, "hello").unwrap();
        let error = load_error(&dir);
        assert!(
            matches!(&error, PkiError::NotPem { path: at, .. } if *at == path),
            "{error:?}"
        );
        fs::remove_file(&path).unwrap();
        let error = load_error(&dir);
        assert!(
            matches!(&error, PkiError::Read { path: at, .. } if *at == path),
            "{error:?}"
        );
        let text = error_chain(&error);
        assert!(
            text.starts_with(&format!("cannot read {}: No such", path.display())),
            "{text}"
        );
    }
}

#[test]
fn key_of_other_certificate_is_rejected() {
    let cluster = Cluster::new("lab");
    cluster.agent();
    cluster.member(Role::Agent, "h1");
    let dir = cluster.dir("h0");
    fs::copy(
        cluster.dir("h1").join(MEMBER_KEY_FILE),
        dir.join(MEMBER_KEY_FILE),
    )
    .unwrap();
    assert!(matches!(load_error(&dir), PkiError::Mismatch { .. }));
}

#[test]
fn key_of_other_authority_is_rejected() {
    let (cluster, other) = (Cluster::new("lab"), Cluster::new("lab"));
    let dir = cluster.dir("authority");
    fs::copy(
        other.dir("authority").join(AUTHORITY_KEY_FILE),
        dir.join(AUTHORITY_KEY_FILE),
    )
    .unwrap();
    let loaded = Authority::load(&dir);
    assert!(matches!(loaded, Err(PkiError::AuthorityMismatch { .. })));
}

#[test]
fn authority_and_member_certificates_differ() {
    let cluster = Cluster::new("lab");
    cluster.agent();
    let (authority, member) = (cluster.dir("authority"), cluster.dir("h0"));
    let swap = |from: &Path, to: &Path| fs::copy(from, to).unwrap();
    swap(
        &authority.join(AUTHORITY_CERTIFICATE_FILE),
        &member.join(MEMBER_CERTIFICATE_FILE),
    );
    assert!(matches!(
        load_error(&member),
        PkiError::CertificateName { .. }
    ));

    cluster.agent();
    swap(
        &member.join(MEMBER_CERTIFICATE_FILE),
        &authority.join(AUTHORITY_CERTIFICATE_FILE),
    );
    let loaded = Authority::load(&authority);
    assert!(matches!(loaded, Err(PkiError::CertificateName { .. })));
}

#[test]
fn invalid_names_get_no_certificate() {
    let cluster = Cluster::new("lab");
    for name in ["", "../h0", "h0/../c0"] {
        let dir = cluster.dir("none");
        let issued = cluster
            .authority
            .issue(Role::Agent, name, Validity::day(), &dir);
        assert!(matches!(issued, Err(PkiError::Name(_))), "{name:?}");
        assert!(!dir.exists());
    }
    let created = Authority::create(&cluster.dir("other"), "a/b");
    assert!(matches!(created, Err(PkiError::Name(_))));
}

/// A program may start while another program of the member renews its certificate.
#[test]
fn folder_is_readable_during_renewal() {
    let cluster = Cluster::new("lab");
    let identity = cluster.agent();
    let authority = Authority::load(&cluster.dir("authority")).unwrap();
    let folder = cluster.dir("h0");
    let (member, admission) = (identity.member().member(), identity.admission());
    thread::scope(|scope| {
        let renewing = scope.spawn(|| {
            for _ in 0..20 {
                let key = KeyRequest::new(&folder).unwrap();
                let chain = authority.certify(key.der(), &member, admission);
                key.install(&chain.unwrap()).unwrap();
            }
        });
        while !renewing.is_finished() {
            Identity::load(&folder).unwrap();
        }
    });
}
