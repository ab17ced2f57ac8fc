//! Finds and ends the processes of a run or an account on this machine, by what they carry in their environment.
//!
//! Seen from outside of their namespaces: a process inside one cannot see those of another.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process that was found.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// Its pid in each namespace, from ours inward.
    pids: Vec<i32>,
}

impl Process {
    fn pid(&self) -> i32 {
        self.pids.first().copied().unwrap_or_default()
    }

    /// Returns the pid that the process knows itself by.
    pub(super) fn inner(&self) -> i32 {
        self.pids.last().copied().unwrap_or_default()
    }

    /// Returns how many namespaces down it lives: 1 is ours.
    pub(super) fn depth(&self) -> usize {
        self.pids.len()
    }

    /// Sends a signal; returns whether there was somebody to take it.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        kill(Pid::from_raw(self.pid()), signal).is_ok()
    }

    /// Kills it, and the whole namespace that it lives in, if it is not ours.
    pub(super) fn end(&self) {
        if let Some(init) = init_of(self) {
            init.signal(Signal::SIGKILL);
        }
        self.signal(Signal::SIGKILL);
    }
}

/// Returns the living processes that carry this run's mark.
pub(super) fn of_run(mark: &str) -> Vec<Process> {
    carrying(format!("INNKEEPER_RUN={mark}").as_bytes())
}

/// Returns the living processes of the commands of the account with this home, of the first in a namespace at least.
pub(super) fn of_house(house: &Path) -> Vec<Process> {
    carrying(&[b"INNKEEPER_HOUSE=", house.as_os_str().as_bytes()].concat())
}

fn carrying(entry: &[u8]) -> Vec<Process> {
    let Ok(all) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    all.flatten()
        .filter_map(|each| each.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| carries(*pid, entry))
        .filter_map(|pid| Status::of(pid).map(|status| Process { pids: status.pids }))
        .collect()
}

/// A process without memory (a zombie) has an empty environment, so it does not count as living.
fn carries(pid: i32, entry: &[u8]) -> bool {
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|each| each == entry))
}

/// Climbs from a process to the first process of the outermost namespace that is not ours.
fn init_of(process: &Process) -> Option<Process> {
    let mut seen = HashSet::new();
    let mut pid = process.pid();
    while seen.insert(pid) {
        let status = Status::of(pid)?;
        match status.pids.as_slice() {
            [_] => return None,
            [_, 1] => return Some(Process { pids: status.pids }),
            _ => pid = status.parent,
        }
    }
    None
}

struct Status {
    parent: i32,
    pids: Vec<i32>,
}

impl Status {
    fn of(pid: i32) -> Option<Status> {
        Status::read(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    fn read(text: &str) -> Option<Status> {
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        // `NSpid` begins with the namespace of this /proc, and so with the pid asked for.
        let pids: Vec<i32> = field("NSpid")?
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
        Some(Status {
            parent: field("PPid")?.trim().parse().ok()?,
            pids: (!pids.is_empty()).then_some(pids)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_of_all_namespaces_are_read() {
        let text = "Name:\tsh\nState:\tS (sleeping)\nPid:\t70\nPPid:\t69\nNSpid:\t70\t4\t1\n";
        let status = Status::read(text).unwrap();
        assert_eq!(status.parent, 69);
        assert_eq!(status.pids, [70, 4, 1]);
        assert!(Status::read("Name:\tsh\n").is_none());
    }

    #[test]
    fn a_process_is_found_by_its_mark_and_only_by_the_whole_of_it() {
        let mark = format!("test-{}", std::process::id());
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env("INNKEEPER_RUN", &mark)
            .spawn()
            .unwrap();
        // Just after its birth a program shows no environment yet.
        let began = std::time::Instant::now();
        while of_run(&mark).is_empty() {
            assert!(began.elapsed().as_secs() < 30, "never found");
        }
        let found = of_run(&mark);
        assert_eq!(found.len(), 1);
        assert!(of_run(&mark[..mark.len() - 1]).is_empty());
        found[0].end();
        child.wait().unwrap();
        assert!(of_run(&mark).is_empty());
    }
}
