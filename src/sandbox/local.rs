//! A sandbox on this machine: each command is a process inside bubblewrap that sees its account's home, the projects
//! and the tool chain, and nothing else of the machine's files. It never sees the bot's own data.
//!
//! As root, or where bubblewrap does not work, commands are ordinary processes of this machine, which
//! [`Local::describe`] says.

mod processes;

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::{
    Done, Exec, Probe, Sandbox, SandboxError, Target, confinement, measure, shell, transfer,
};
use crate::domain::ids::AccountId;

/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What commands see of the machine, where it exists. Of `/etc` only what programs need to work at all.
const TOOLS: [&str; 24] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/fonts",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
];
/// How long a command is given beyond its limit, after which it ends by itself.
const GRACE: Duration = Duration::from_secs(5);
/// Bytes of standard error that are kept.
const ERRORS: usize = 4096;
/// How long the last complaints of an ended command are waited for.
const LAST_WORDS: Duration = Duration::from_millis(20);
/// How often a killed run is looked for before that is given up.
const ROUNDS: u32 = 100;
/// How many looks in a row must find nothing: a process that is just becoming another program shows no environment for
/// a moment (seen).
const QUIET: u32 = 2;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// What commands see beside their account's home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalOptions {
    /// Directories that every account may write, under the same path: projects that are worked on in place.
    pub writable: Vec<PathBuf>,
    /// Files and directories that every account may read, under the same path: the agent's program and the like.
    pub readable: Vec<PathBuf>,
}

/// Processes on this machine.
#[derive(Debug)]
pub struct Local {
    root: PathBuf,
    options: LocalOptions,
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    /// Each command inside bubblewrap.
    Wrapped,
    /// Ordinary processes; why.
    Plain(String),
}

impl Local {
    /// Returns a sandbox that keeps the accounts' homes in `root`, which is made if need be; tries bubblewrap once.
    pub fn new(root: PathBuf, options: LocalOptions) -> Result<Local, SandboxError> {
        make_private(&root)?;
        let root = root
            .canonicalize()
            .map_err(|error| trouble("the homes' directory", &root, &error))?;
        let mut local = Local {
            root,
            options,
            mode: Mode::Wrapped,
        };
        // The program that runs now may be needed inside, too; it stands where the bot was put.
        if let Ok(program) = std::env::current_exe() {
            local.options.readable.push(program);
        }
        if let Some(why) = why_not_wrapped() {
            local.mode = Mode::Plain(why);
        }
        Ok(local)
    }

    /// Returns what this machine's sandbox does without, in one line for admins; nothing if it does without nothing.
    pub fn describe(&self) -> Option<String> {
        match &self.mode {
            Mode::Wrapped => None,
            Mode::Plain(why) => Some(format!(
                "turns run as ordinary processes of this machine's user, without bubblewrap around them: {why}"
            )),
        }
    }

    /// Returns the account's home as this machine knows it.
    fn house(&self, account: &AccountId) -> Result<PathBuf, SandboxError> {
        let name = &account.0;
        let fits = !name.is_empty()
            && name.len() <= 64
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !fits {
            return Err(SandboxError::Failed(format!(
                "{name:?} is no account: use a-z, 0-9, - and _"
            )));
        }
        Ok(self.root.join(name))
    }

    /// Returns the account's home as its commands know it.
    fn home(&self, account: &AccountId) -> Result<String, SandboxError> {
        match self.mode {
            Mode::Wrapped => Ok(format!("/home/{account}")),
            Mode::Plain(_) => Ok(self.house(account)?.to_string_lossy().into_owned()),
        }
    }

    fn spawn(&self, account: &AccountId, exec: &Exec) -> Result<(Child, Vec<u8>), SandboxError> {
        let house = self.house(account)?;
        make_private(&house)?;
        let mut env = vec![
            ("HOME".to_owned(), self.home(account)?),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("LOGNAME".to_owned(), account.0.clone()),
            ("PATH".to_owned(), PATH.to_owned()),
            ("SHELL".to_owned(), "/bin/sh".to_owned()),
            ("USER".to_owned(), account.0.clone()),
        ];
        env.extend(shell::environment(exec)?);
        let limit = exec.limit.as_secs().max(1).to_string();
        let words = ["timeout", "-k", "2", &limit, "sh", "-c", &exec.script];
        let (mut command, fed) = match self.mode {
            Mode::Wrapped => (wrapped(), self.wrap(&house, account, &env)?),
            Mode::Plain(_) => (plain(&house, &env), Vec::new()),
        };
        if let Some((_, mark)) = exec.vars.iter().find(|(name, _)| *name == "RUN") {
            // The namespace's init is found by it when nothing else inside carries the mark any more.
            command.env("INNKEEPER_RUN", String::from_utf8_lossy(mark).as_ref());
        }
        command
            .args(words)
            // The directory and not the name alone: another bot on this machine may use the same names.
            .env("INNKEEPER_HOUSE", &house)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let child = command
            .spawn()
            .map_err(|error| SandboxError::Failed(format!("no process could be made: {error}")))?;
        Ok((child, fed))
    }

    /// Returns bubblewrap's arguments, each ended by NUL: they go through a pipe, because they hold the variables,
    /// and because bubblewrap's own environment can be read inside for as long as the namespace lives.
    fn wrap(
        &self,
        house: &Path,
        account: &AccountId,
        env: &[(String, String)],
    ) -> Result<Vec<u8>, SandboxError> {
        let home = self.home(account)?;
        let mut args: Vec<String> = [
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
        ]
        .into_iter()
        .chain([
            "--new-session",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--tmpfs",
            "/tmp",
        ])
        .map(str::to_owned)
        .collect();
        let mut bind = |how: &str, from: &Path, to: &str| {
            args.extend([
                how.to_owned(),
                from.to_string_lossy().into_owned(),
                to.to_owned(),
            ]);
        };
        for tool in TOOLS {
            bind("--ro-bind-try", Path::new(tool), tool);
        }
        for path in &self.options.readable {
            bind("--ro-bind-try", path, &path.to_string_lossy());
        }
        for path in &self.options.writable {
            bind("--bind-try", path, &path.to_string_lossy());
        }
        bind("--bind", house, &home);
        args.extend(["--chdir".to_owned(), home, "--clearenv".to_owned()]);
        for (name, value) in env {
            args.extend(["--setenv".to_owned(), name.clone(), value.clone()]);
        }
        args.extend(["--setenv", "INNKEEPER_OWN_NAMESPACE", "yes"].map(str::to_owned));
        let mut bytes = args.join("\0").into_bytes();
        bytes.push(0);
        Ok(bytes)
    }

    /// Asks the agent of a run to end; returns whether there was one.
    fn interrupt(&self, account: &AccountId, target: &Target) -> Result<bool, SandboxError> {
        let directory = shell::path(&target.directory)?;
        let Some(pid) = read_pid(&self.house(account)?.join(directory).join("cli")) else {
            return Ok(false);
        };
        Ok(processes::of_run(&target.mark)
            .iter()
            .filter(|process| process.inner() == pid)
            .min_by_key(|process| process.depth())
            .is_some_and(|agent| agent.signal(Signal::SIGINT)))
    }

    fn left(
        &self,
        account: &AccountId,
        target: &Target,
    ) -> Result<Vec<processes::Process>, SandboxError> {
        let mut left = processes::of_run(&target.mark);
        if target.alone {
            left.extend(processes::of_house(&self.house(account)?));
        }
        Ok(left)
    }

    async fn carry_out(&self, account: &AccountId, exec: Exec) -> Result<Done, SandboxError> {
        let (mut child, fed) = self.spawn(account, &exec)?;
        if let Some(mut input) = child.stdin.take() {
            // A reader that is gone shows in the exit code.
            let _ = input.write_all(&fed).await;
        }
        let worked = tokio::time::timeout(exec.limit + GRACE, gather(&mut child, exec.most));
        let (out, err, code) = match worked.await {
            Ok(gathered) => gathered?,
            Err(_) => return Err(SandboxError::Slow(exec.limit)),
        };
        let err = String::from_utf8_lossy(&err);
        shell::judge(&exec, code, &err)?;
        if code == 1 && out.is_empty() && err.starts_with("bwrap: ") {
            return Err(SandboxError::Failed(err.trim().to_owned()));
        }
        Ok(Done {
            code,
            out: out.into(),
        })
    }
}

#[async_trait]
impl Sandbox for Local {
    async fn exec(&self, account: &AccountId, exec: Exec) -> Result<Done, SandboxError> {
        measure::command(self.carry_out(account, exec)).await
    }

    async fn put(&self, account: &AccountId, path: &str, bytes: Bytes) -> Result<(), SandboxError> {
        transfer::put(self, account, path, bytes).await
    }

    async fn get(
        &self,
        account: &AccountId,
        path: &str,
        most: usize,
    ) -> Result<Bytes, SandboxError> {
        transfer::get(self, account, path, most).await
    }

    async fn kill(&self, account: &AccountId, target: &Target) -> Result<(), SandboxError> {
        if self.interrupt(account, target)? {
            for _ in 0..ROUNDS / 2 {
                if processes::of_run(&target.mark).is_empty() {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        let mut quiet = 0;
        for _ in 0..ROUNDS {
            let left = self.left(account, target)?;
            quiet = if left.is_empty() { quiet + 1 } else { 0 };
            if quiet == QUIET {
                return Ok(());
            }
            for process in left {
                process.end();
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(SandboxError::Failed(format!(
            "something of the run {} is still alive after many SIGKILLs",
            target.mark
        )))
    }

    async fn probe(&self, account: &AccountId) -> Result<Probe, SandboxError> {
        confinement::probe(self, account).await
    }
}

/// Returns bubblewrap with its arguments on standard input, moved away so that the command does not see it. Output goes
/// by way of another descriptor: the namespace's first process keeps standard output open for as long as anything in it
/// lives, and closes all but the first three (measured, bubblewrap 0.8).
fn wrapped() -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args([
            "-c",
            r#"exec bwrap --args 3 "$@" 3<&0 4>&1 </dev/null >/dev/null"#,
            "sh",
        ])
        .args(["sh", "-c", r#"exec "$@" >&4 4>&-"#, "sh"])
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .stdin(Stdio::piped());
    command
}

fn plain(house: &Path, env: &[(String, String)]) -> Command {
    let mut command = Command::new("/usr/bin/env");
    command
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .current_dir(house)
        .stdin(Stdio::null());
    command
}

/// Reads what a command writes, until it has ended. Standard error is not waited for: what lives on may hold it.
async fn gather(child: &mut Child, most: usize) -> Result<(Vec<u8>, Vec<u8>, i32), SandboxError> {
    let (Some(out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(SandboxError::Failed("a process without pipes".to_owned()));
    };
    let io = |error: std::io::Error| SandboxError::Failed(format!("a pipe broke: {error}"));
    let mut gathered = Vec::new();
    let mut errors = Vec::new();
    let work = async {
        out.take(most as u64 + 1)
            .read_to_end(&mut gathered)
            .await
            .map_err(io)?;
        if gathered.len() > most {
            return Err(SandboxError::TooMuch(most));
        }
        child.wait().await.map_err(io)
    };
    let status = {
        let complaints = keep_last(&mut err, &mut errors);
        tokio::pin!(complaints, work);
        tokio::select! {
            status = &mut work => {
                // What was written before the end is on its way.
                let _ = tokio::time::timeout(LAST_WORDS, complaints).await;
                status
            }
            () = &mut complaints => work.await,
        }
    }?;
    let code = status.code().unwrap_or_else(|| {
        128 + std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default()
    });
    Ok((gathered, errors, code))
}

/// Reads to the end and keeps the last bytes.
async fn keep_last(from: &mut (impl tokio::io::AsyncRead + Unpin), kept: &mut Vec<u8>) {
    let mut piece = [0; 1024];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        kept.extend_from_slice(&piece[..read]);
        let surplus = kept.len().saturating_sub(ERRORS);
        kept.drain(..surplus);
    }
}

/// Returns why commands cannot be wrapped, if they cannot.
fn why_not_wrapped() -> Option<String> {
    if nix::unistd::geteuid().is_root() {
        return Some("the bot runs as root; run it as an ordinary user".to_owned());
    }
    let tried = std::process::Command::new("bwrap")
        .args(["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/"])
        .args(["--proc", "/proc", "--dev", "/dev", "/bin/sh", "-c", ":"])
        .env_clear()
        .env("PATH", PATH)
        .stdin(Stdio::null())
        .output();
    match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!(
            "bubblewrap was refused ({}); allow user namespaces to ordinary users",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(_) => Some("bubblewrap is missing; install the package bubblewrap".to_owned()),
    }
}

fn make_private(directory: &Path) -> Result<(), SandboxError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| trouble("the directory", directory, &error))
}

fn trouble(what: &str, path: &Path, error: &std::io::Error) -> SandboxError {
    if error.kind() == std::io::ErrorKind::StorageFull {
        return SandboxError::Full;
    }
    SandboxError::Failed(format!("{what} {} cannot be used: {error}", path.display()))
}

/// Reads a number that an account wrote: whatever stands there, it does not block and follows no link.
fn read_pid(path: &Path) -> Option<i32> {
    use std::io::Read as _;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
        .ok()?;
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok().filter(|pid| *pid > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_cannot_name_a_place_outside_the_root() {
        let root = tempfile::tempdir().unwrap();
        let local = Local::new(root.path().join("homes"), LocalOptions::default()).unwrap();
        for name in ["", ".", "..", "a/b", "a b", "é"] {
            assert!(
                local.house(&AccountId(name.to_owned())).is_err(),
                "{name:?}"
            );
        }
        assert!(local.house(&AccountId("k3-x_9".to_owned())).is_ok());
    }

    #[test]
    fn a_pid_is_read_from_plain_files_only() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("cli");
        std::fs::write(&file, "4711\n").unwrap();
        assert_eq!(read_pid(&file), Some(4711));
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read_pid(&link), None);
        for odd in ["1", "-9", "x", ""] {
            std::fs::write(&file, odd).unwrap();
            assert_eq!(read_pid(&file), None, "{odd:?}");
        }
        let fifo = place.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_pid(&fifo), None);
    }
}
