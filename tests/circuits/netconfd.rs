//! netconfd, a NETCONF server by other authors, behind OpenSSH: it holds circuits as configuration and checks them
//! against their YANG module.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use nix::unistd::{User, geteuid};
use reweave_tests::{STAGE_TIMEOUT, wait_for};

use crate::needs::find;

const YANG_MODULE: &str = include_str!("optical-switch.yang");
/// The folder of the modules that every server needs.
const COMMON_MODULES_PATH: &str = "/usr/share/yuma/modules";
/// The end of each message in NETCONF 1.0 framing.
const END_OF_MESSAGE: &str = "]]>]]>";

pub(crate) struct Netconfd {
    process: Child,
    folder: PathBuf,
    port: u16,
    user: String,
}

impl Netconfd {
    pub(crate) fn start(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it has an address").port();
        let user = User::from_uid(geteuid()).expect("a list of users");
        let user = user.expect("this process belongs to one").name;
        for name in ["host-key", "key"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.join(name))
                .status();
            assert!(made.expect("ssh-keygen").success());
        }
        fs::copy(folder.join("key.pub"), folder.join("authorized")).expect("a file");
        let server = Self {
            process: serve_netconf(folder, port, &user),
            folder: folder.to_owned(),
            port,
            user,
        };
        server.know_host();
        server.let_in(listener);
        server
    }

    pub(crate) fn settings(&self) -> String {
        let [key, known] = ["key", "known-hosts"].map(|name| self.folder.join(name));
        let Self { port, user, .. } = self;
        format!(
            "[optical.speaks.netconf]\nhost = \"127.0.0.1\"\nport = {port}\nuser = {user:?}\n\
             key_file = {key:?}\nknown_hosts = {known:?}\n"
        )
    }

    fn know_host(&self) {
        let key = fs::read_to_string(self.folder.join("host-key.pub")).expect("a key");
        let line = format!("[127.0.0.1]:{} {key}", self.port);
        fs::write(self.folder.join("known-hosts"), line).expect("a file");
    }

    /// Gives the device a new host key, as if it had been replaced.
    pub(crate) fn forget_key(&self) {
        fs::write(self.folder.join("known-hosts"), "").expect("a file");
    }

    /// Starts one ssh server per connection, as inetd does.
    fn let_in(&self, listener: TcpListener) {
        let config = self.folder.join("sshd-config");
        let socket = self.folder.join("netconfd-socket");
        let text = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nPermitRootLogin yes\nStrictModes no\nUsePAM no\n\
             Subsystem netconf /usr/sbin/netconf-subsystem --ncxserver-sockname={}@{}\n",
            self.folder.join("host-key").display(),
            self.folder.join("authorized").display(),
            self.port,
            socket.display()
        );
        fs::write(&config, text).expect("a file");
        let sshd = find("sshd").expect("it is needed");
        if geteuid().is_root() {
            // root's sshd needs an empty folder for privilege separation.
            fs::create_dir_all("/run/sshd").expect("a folder");
        }
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let mut server = Command::new(&sshd);
                server.arg("-i").arg("-f").arg(&config);
                let both = |stream: &TcpStream| OwnedFd::from(stream.try_clone().expect("a copy"));
                server
                    .stdin(both(&caller))
                    .stdout(both(&caller))
                    .stderr(Stdio::null());
                let mut server = server.spawn().expect("sshd starts");
                thread::spawn(move || server.wait());
            }
        });
    }

    /// Holds the lock of the configuration in another session, until this is dropped.
    pub(crate) fn lock(&self) -> Other {
        let mut ssh = Command::new("ssh");
        let known = format!(
            "UserKnownHostsFile={}",
            self.folder.join("known-hosts").display()
        );
        ssh.args([
            "-s",
            "-F",
            "none",
            "-o",
            "BatchMode=yes",
            "-o",
            &known,
            "-i",
        ]);
        ssh.arg(self.folder.join("key"));
        ssh.args([
            "-p",
            &self.port.to_string(),
            "-l",
            &self.user,
            "127.0.0.1",
            "netconf",
        ]);
        let mut ssh = ssh
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ssh starts");
        let mut other = Other {
            input: ssh.stdin.take().expect("piped"),
            output: ssh.stdout.take().expect("piped"),
            ssh,
        };
        other.say(
            "<hello xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\"><capabilities>\
             <capability>urn:ietf:params:netconf:base:1.0</capability></capabilities></hello>",
        );
        assert!(other.hear().contains("hello"));
        let locked = other.ask("<lock><target><running/></target></lock>");
        assert!(locked.contains("ok"), "{locked}");
        other
    }
}

impl Drop for Netconfd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serve_netconf(folder: &Path, port: u16, user: &str) -> Child {
    let modules = folder.join("modules");
    fs::create_dir(&modules).expect("a folder");
    fs::write(modules.join("optical-switch.yang"), YANG_MODULE).expect("a file");
    let socket = folder.join("netconfd-socket");
    let netconfd = find("netconfd").expect("it is needed");
    let process = Command::new(netconfd)
        .args(["--module=optical-switch", "--no-startup"])
        .arg(format!(
            "--modpath={}:{COMMON_MODULES_PATH}",
            modules.display()
        ))
        .arg(format!("--superuser={user}"))
        .arg(format!("--port={port}"))
        .arg(format!("--ncxserver-sockname={}", socket.display()))
        .arg(format!("--log={}", folder.join("netconfd.log").display()))
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("netconfd starts");
    let listens = || Ok(socket.exists().then_some(()));
    wait_for("netconfd listens", STAGE_TIMEOUT, listens).expect("it does");
    process
}

/// Another client session.
pub(crate) struct Other {
    ssh: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Other {
    fn ask(&mut self, what: &str) -> String {
        let base = "urn:ietf:params:xml:ns:netconf:base:1.0";
        self.say(&format!(
            "<rpc xmlns=\"{base}\" message-id=\"1\">{what}</rpc>"
        ));
        self.hear()
    }

    fn say(&mut self, text: &str) {
        let text = format!("{text}{END_OF_MESSAGE}");
        self.input.write_all(text.as_bytes()).expect("it listens");
    }

    fn hear(&mut self) -> String {
        let mut heard = vec![];
        while !heard.ends_with(END_OF_MESSAGE.as_bytes()) {
            let mut byte = [0];
            self.output.read_exact(&mut byte).expect("it speaks");
            heard.extend(byte);
        }
        String::from_utf8_lossy(&heard).into_owned()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.ask("<close-session/>");
        let _ = self.ssh.wait();
    }
}
