//! A real open-terminal server for many users, and the one account on it that a test uses.

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};

/// The key that the bot shows to the server.
pub(crate) const API_KEY: &str = "a-key-for-the-terminal";

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server in a directory of its own. When it is dropped, its account and everything of it is gone.
#[derive(Debug)]
pub(crate) struct Terminal {
    directory: tempfile::TempDir,
    port: u16,
    child: Child,
    /// The name of the account, made at its first use.
    pub(crate) account: String,
}

impl Terminal {
    /// Starts a server; nothing where accounts cannot be made.
    pub(crate) async fn start() -> Option<Terminal> {
        if !geteuid().is_root() {
            eprintln!("not root: a server for many users cannot be tried");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let terminal = Terminal {
            child: launch(directory.path(), port),
            directory,
            port,
            account: format!("r{:07x}", rand::random::<u32>() >> 4),
        };
        terminal.answers().await;
        Some(terminal)
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the home of the account.
    pub(crate) fn home(&self) -> PathBuf {
        Path::new("/home").join(&self.account)
    }

    /// Kills the server without a warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again at the same place.
    pub(crate) async fn start_again(&mut self) {
        self.child = launch(self.directory.path(), self.port);
        self.answers().await;
    }

    async fn answers(&self) {
        let began = Instant::now();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("{}/health", self.url());
        while client.get(&url).send().await.is_err() {
            assert!(began.elapsed() < PATIENCE, "the server did not start");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the directories that the server writes its own files into.
    pub(crate) fn logs(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Returns the processes of the account: number, environment, command line.
    pub(crate) fn processes(&self) -> Vec<Process> {
        match User::from_name(&self.account) {
            Ok(Some(user)) => processes()
                .into_iter()
                .filter(|process| process.user == user.uid.as_raw())
                .collect(),
            _ => Vec::new(),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in self.processes() {
            let _ = kill(Pid::from_raw(process.id), Signal::SIGKILL);
        }
        // Its group has the server's user in it, so it does not go with the account.
        for program in [&["userdel", "-r", "-f"][..], &["groupdel"]] {
            let _ = Command::new(program[0])
                .args(&program[1..])
                .arg(&self.account)
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// A process of this machine.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) id: i32,
    /// Its user's number.
    pub(crate) user: u32,
    /// Its environment, as far as it can be read.
    pub(crate) environment: String,
    /// Its command line.
    pub(crate) line: String,
}

/// Returns the processes of this machine but this one.
pub(crate) fn processes() -> Vec<Process> {
    use std::os::unix::fs::MetadataExt as _;
    let text = |path: PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', "\n")
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let id: i32 = entry.file_name().to_str()?.parse().ok()?;
            let process = Process {
                id,
                user: entry.metadata().ok()?.uid(),
                environment: text(entry.path().join("environ")),
                line: text(entry.path().join("cmdline")),
            };
            (id.unsigned_abs() != std::process::id()).then_some(process)
        })
        .collect()
}

fn launch(directory: &Path, port: u16) -> Child {
    let said = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join("said"))
        .unwrap();
    let home = directory.join("home");
    std::fs::create_dir_all(&home).unwrap();
    Command::new(program())
        .args(["run", "--host", "127.0.0.1", "--port", &port.to_string()])
        .env("OPEN_TERMINAL_API_KEY", API_KEY)
        .env("OPEN_TERMINAL_MULTI_USER", "true")
        .env("OPEN_TERMINAL_LOG_DIR", directory.join("logs"))
        .env("HOME", &home)
        // The server adds this user to each account's group; without it, it looks for one called `user`.
        .env("USER", "root")
        .current_dir(&home)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(said.try_clone().unwrap())
        .stderr(said)
        .spawn()
        .unwrap()
}

fn program() -> PathBuf {
    super::tool(
        "INNKEEPER_OPEN_TERMINAL",
        "open-terminal",
        "venv/bin/open-terminal",
    )
}
