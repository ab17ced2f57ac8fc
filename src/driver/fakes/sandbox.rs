//! A sandbox in memory: it knows the scripts of the turn directory and plays them over byte strings.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use crate::domain::ids::AccountId;
use crate::sandbox::shell::script;
use crate::sandbox::{Confinement, Done, Exec, Probe, Sandbox, SandboxError, Target};

use super::super::turn_directory::{FOLLOW, SAY, START};

#[derive(Clone, Debug, Default)]
struct Run {
    out: Vec<u8>,
    said: Vec<String>,
    ended: Option<Option<i32>>,
}

#[derive(Debug, Default)]
struct Memory {
    runs: HashMap<String, Run>,
    starts: usize,
    kills: usize,
    settings: String,
    unconfined: bool,
    away: bool,
    puts: Vec<(String, Bytes)>,
}

/// The sandbox; clones are the same one.
#[derive(Clone, Debug)]
pub(in crate::driver) struct FakeSandbox {
    memory: Arc<Mutex<Memory>>,
    changed: watch::Sender<u64>,
}

impl FakeSandbox {
    pub(in crate::driver) fn new() -> FakeSandbox {
        FakeSandbox {
            memory: Arc::default(),
            changed: watch::Sender::new(0),
        }
    }

    /// Lets the newest run's stream say these lines.
    pub(in crate::driver) fn emits(&self, lines: &[&str]) {
        self.change(|memory| {
            let run = memory.runs.values_mut().next().expect("a run was started");
            for line in lines {
                run.out.extend_from_slice(line.as_bytes());
                run.out.push(b'\n');
            }
        });
    }

    /// Lets the run end.
    pub(in crate::driver) fn ends(&self, code: i32) {
        self.change(|memory| {
            for run in memory.runs.values_mut() {
                run.ended.get_or_insert(Some(code));
            }
        });
    }

    /// Makes the stream shorter than it was.
    pub(in crate::driver) fn shrinks(&self) {
        self.change(|memory| {
            for run in memory.runs.values_mut() {
                run.out.truncate(1);
            }
        });
    }

    /// Makes it unreachable, or reachable again.
    pub(in crate::driver) fn is_away(&self, away: bool) {
        self.change(|memory| memory.away = away);
    }

    /// Returns how many runs were started.
    pub(in crate::driver) fn starts(&self) -> usize {
        self.lock().starts
    }

    /// Returns the settings that the newest run was started with.
    pub(in crate::driver) fn settings(&self) -> String {
        self.lock().settings.clone()
    }

    /// Lets no command be confined from now on.
    pub(in crate::driver) fn confines_nothing(&self) {
        self.change(|memory| memory.unconfined = true);
    }

    /// Returns how often a run was killed.
    pub(in crate::driver) fn kills(&self) -> usize {
        self.lock().kills
    }

    /// Returns what agents were told beside their requests.
    pub(in crate::driver) fn said(&self) -> Vec<String> {
        self.lock()
            .runs
            .values()
            .flat_map(|run| run.said.clone())
            .collect()
    }

    /// Waits until something holds, for a day of the test's clock.
    pub(in crate::driver) async fn until(&self, holds: impl Fn(&FakeSandbox) -> bool) {
        let mut changes = self.changed.subscribe();
        let holding = async {
            while !holds(self) {
                changes.changed().await.expect("the sandbox lives");
            }
        };
        let day = Duration::from_secs(24 * 60 * 60);
        tokio::time::timeout(day, holding)
            .await
            .expect("it never came to that in the sandbox");
    }

    /// Returns the names of the runs of the same chat that go on beside this one.
    fn others_of(&self, directory: &str) -> Vec<String> {
        let (chat, _) = directory.rsplit_once('/').expect("a run's directory");
        let memory = self.lock();
        let running = memory
            .runs
            .iter()
            .filter(|(other, run)| *other != directory && run.ended.is_none());
        running
            .filter_map(|(other, _)| other.strip_prefix(chat)?.strip_prefix('/'))
            .map(str::to_owned)
            .collect()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        let outcome = change(&mut self.lock());
        self.changed.send_modify(|count| *count += 1);
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers as the script for following does: waits for growth, for the end, or for the time to be up.
    async fn look(
        &self,
        directory: &str,
        at: usize,
        wait: Duration,
        most: usize,
    ) -> Result<Done, SandboxError> {
        let mut changes = self.changed.subscribe();
        let moved = async {
            loop {
                {
                    let memory = self.lock();
                    let run = memory.runs.get(directory);
                    if memory.away
                        || run.is_none_or(|run| run.out.len() != at || run.ended.is_some())
                    {
                        return;
                    }
                }
                changes.changed().await.expect("the sandbox lives");
            }
        };
        let _ = tokio::time::timeout(wait, moved).await;
        let memory = self.lock();
        if memory.away {
            return Err(SandboxError::Away("it is pulled out".to_owned()));
        }
        let Some(run) = memory.runs.get(directory) else {
            return done(0, b"absent - 0\n");
        };
        let rest = &run.out[at.min(run.out.len())..];
        let (state, code) = match run.ended {
            None => ("running", "-".to_owned()),
            Some(code) => (
                "ended",
                code.map_or("-".to_owned(), |code| code.to_string()),
            ),
        };
        let mut out = format!("{state} {code} {}\n", run.out.len()).into_bytes();
        out.extend_from_slice(&rest[..rest.len().min(most)]);
        done(0, &out)
    }
}

fn done(code: i32, out: &[u8]) -> Result<Done, SandboxError> {
    Ok(Done {
        code,
        out: Bytes::copy_from_slice(out),
    })
}

fn var(exec: &Exec, name: &str) -> String {
    let value = exec
        .vars
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, bytes)| bytes.clone());
    String::from_utf8(value.unwrap_or_default()).expect("a text")
}

#[async_trait]
impl Sandbox for FakeSandbox {
    async fn exec(&self, _: &AccountId, exec: Exec) -> Result<Done, SandboxError> {
        if self.lock().away {
            return Err(SandboxError::Away("it is pulled out".to_owned()));
        }
        let directory = var(&exec, "DIR");
        if exec.script == script(FOLLOW) {
            let number = |name| var(&exec, name).parse::<u64>().expect("a number");
            let wait = Duration::from_secs(number("WAIT"));
            return self
                .look(
                    &directory,
                    number("AT") as usize,
                    wait,
                    number("MOST") as usize,
                )
                .await;
        }
        if exec.script == script(START) {
            let others = self.others_of(&directory);
            if !others.is_empty() {
                return done(43, others.join(" ").as_bytes());
            }
            self.change(|memory| {
                if !memory.runs.contains_key(&directory) {
                    memory.runs.clear();
                    memory.starts += 1;
                    memory.settings = var(&exec, "S0");
                    memory.runs.insert(directory, Run::default());
                }
            });
        } else if exec.script == script(SAY) {
            let id = var(&exec, "ID");
            self.change(|memory| {
                if let Some(run) = memory.runs.get_mut(&directory)
                    && !run.said.contains(&id)
                {
                    run.said.push(id);
                }
            });
        }
        done(0, b"")
    }

    async fn put(&self, _: &AccountId, path: &str, bytes: Bytes) -> Result<(), SandboxError> {
        self.change(|memory| memory.puts.push((path.to_owned(), bytes)));
        Ok(())
    }

    async fn get(&self, _: &AccountId, path: &str, _: usize) -> Result<Bytes, SandboxError> {
        Err(SandboxError::Gone(path.to_owned()))
    }

    async fn kill(&self, _: &AccountId, _: &Target) -> Result<(), SandboxError> {
        if self.lock().away {
            return Err(SandboxError::Away("it is pulled out".to_owned()));
        }
        self.change(|memory| {
            memory.kills += 1;
            for run in memory.runs.values_mut() {
                run.ended.get_or_insert(Some(137));
            }
        });
        Ok(())
    }

    async fn probe(&self, account: &AccountId) -> Result<Probe, SandboxError> {
        Ok(Probe {
            home: format!("/home/{account}"),
            confinement: match self.lock().unconfined {
                false => Confinement::Works,
                true => Confinement::Missing("no namespaces".to_owned()),
            },
        })
    }
}
