//! Commands that the scripted agent really runs, each in a session of its own as the real agent does.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::input::{Halt, Inbox};

/// The most output that is kept, in bytes.
const OUTPUT: usize = 30_000;

/// How often is looked whether a command has ended.
const LOOK: Duration = Duration::from_millis(20);

/// How long output is waited for after the end: what a command left running in the background may hold it open for ever.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Runs a command to its end; what it gave, and whether it failed.
pub(super) fn run(
    command: &str,
    workspace: &Path,
    session: &str,
    inbox: &mut Inbox,
) -> Result<(String, bool), Halt> {
    let mut child = match start(command, workspace, session) {
        Ok(child) => child,
        Err(error) => return Ok((format!("the command could not be started: {error}"), true)),
    };
    let (output, ended) = listen(&mut child);
    let status = match watch(&mut child, inbox) {
        Ok(status) => status,
        Err(halt) => {
            end(&mut child);
            return Err(halt);
        }
    };
    // Whether it ended or is still held open: what came so far counts.
    ended.recv_timeout(LAST_WORDS).ok();
    let text = output
        .lock()
        .map(|output| String::from_utf8_lossy(&output).into_owned());
    Ok(report(&text.unwrap_or_default(), status))
}

fn start(command: &str, workspace: &Path, session: &str) -> std::io::Result<Child> {
    Command::new("setsid")
        .args(["sh", "-c", &format!("exec 2>&1\n{command}")])
        .current_dir(workspace)
        .env("CLAUDE_CODE_SESSION_ID", session)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// What a command has given so far.
type Output = Arc<Mutex<Vec<u8>>>;

fn listen(child: &mut Child) -> (Output, Receiver<()>) {
    let output = Output::default();
    let (sender, ended) = channel();
    if let Some(out) = child.stdout.take() {
        let output = Arc::clone(&output);
        std::thread::spawn(move || {
            gather(out, &output);
            sender.send(()).ok();
        });
    }
    (output, ended)
}

/// Reads to the end, so that the command never waits for a reader, and keeps the beginning.
fn gather(mut out: impl Read, output: &Output) {
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = out.read(&mut piece) {
        if let Ok(mut output) = output.lock() {
            let room = OUTPUT.saturating_sub(output.len());
            output.extend_from_slice(&piece[..count.min(room)]);
        }
    }
}

fn watch(child: &mut Child, inbox: &mut Inbox) -> Result<ExitStatus, Halt> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        inbox.wait(LOOK)?;
    }
}

/// Ends the command with everything in its session's first group.
fn end(child: &mut Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    // Before the new session exists there is no such group yet, so the process itself is meant too.
    killpg(pid, Signal::SIGKILL).ok();
    kill(pid, Signal::SIGKILL).ok();
    child.wait().ok();
}

fn report(output: &str, status: ExitStatus) -> (String, bool) {
    let output = output.trim_end();
    match status.code() {
        Some(0) if output.is_empty() => ("(no output)".to_owned(), false),
        Some(0) => (output.to_owned(), false),
        Some(code) => (
            format!("Exit code {code}\n{output}").trim_end().to_owned(),
            true,
        ),
        None => (
            format!("The command was ended by a signal.\n{output}"),
            true,
        ),
    }
}
