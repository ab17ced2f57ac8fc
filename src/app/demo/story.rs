//! The built-in story: a mention, a granted project, tools, a produced picture, a second speaker, a refusal, a stop, the
//! ledger. Each scene waits until people see what they should; what does not come within its patience ends the story.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::app::commands::{complain, say};
use crate::standin::Standin;
use crate::store::{EntryFilter, Store};

use super::transcript::{self, Names, list};

/// How long a scene may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A year of sales, invented.
const SALES: &str = "month,sales\n1,120\n2,180\n3,150\n4,240\n5,310\n6,280\n7,390\n8,420\n9,380\n10,450\n11,510\n12,640\n";

/// Tells the story, prints it as people saw it, and fails if one scene did not show what it should.
pub(super) async fn tell(standin: &Standin, books: &Store, homes: &Path) -> anyhow::Result<()> {
    let stage = Stage { standin, homes };
    let told = stage.scenes().await;
    say(&transcript::of(&standin.world()));
    let names = Names::of(&standin.world());
    let times = match told {
        Ok(times) => times,
        Err(error) => return Err(error),
    };
    say(&ledger(books, &names)?);
    say(&format!(
        "first visible reply {} ms after the mention; an agent's event shown {} ms after it happened\n",
        times.first_reply.as_millis(),
        times.event_to_row.as_millis()
    ));
    Ok(())
}

struct Times {
    first_reply: Duration,
    event_to_row: Duration,
}

struct Stage<'a> {
    standin: &'a Standin,
    homes: &'a Path,
}

impl Stage<'_> {
    async fn scenes(&self) -> anyhow::Result<Times> {
        let (thread, first_reply) = self.mention().await.context("scene 1, the mention")?;
        self.picture(&thread)
            .await
            .context("scene 2, the picture")?;
        self.second_speaker(&thread)
            .await
            .context("scene 3, the second speaker")?;
        self.refusal().await.context("scene 4, the refusal")?;
        let event_to_row = self.stopped().await.context("scene 5, the stop")?;
        self.usage().await.context("scene 6, the usage")?;
        Ok(Times {
            first_reply,
            event_to_row,
        })
    }

    /// Ada asks in #data, with a file; a thread opens on her message.
    async fn mention(&self) -> anyhow::Result<(String, Duration)> {
        self.until("the bot has registered its commands", |_| true, true)
            .await?;
        let file = base64::engine::general_purpose::STANDARD.encode(SALES);
        let asked = Instant::now();
        let message = self
            .act(json!({"as": "ada", "do": "say", "in": "data", "text": "@innkeeper plot the sales in data.csv",
                        "files": [{"name": "data.csv", "base64": file}]}))
            .await?["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.until(
            "a thread with a live message",
            |world| thread(world, &message).is_some_and(|it| bots(it).next().is_some()),
            false,
        )
        .await?;
        Ok((message, asked.elapsed()))
    }

    /// Tools are shown while they run, and the answer comes with the picture as a reply to her.
    async fn picture(&self, at: &str) -> anyhow::Result<()> {
        let rows = |world: &Value| {
            let shown = thread(world, at)
                .and_then(|it| bots(it).next())
                .and_then(|live| live["content"].as_str());
            shown.map_or(0, |text| {
                text.lines()
                    .filter(|line| line.contains(['✓', '⏳', '✗']))
                    .count()
            })
        };
        self.until(
            "three tool rows in the live message",
            |world| rows(world) >= 3,
            false,
        )
        .await?;
        let answered = |world: &Value| {
            thread(world, at).is_some_and(|it| {
                bots(it).any(|message| {
                    list(message, "pings").any(|name| name == "ada")
                        && list(message, "attachments").any(|file| {
                            file["name"]
                                .as_str()
                                .is_some_and(|name| name.ends_with(".png"))
                        })
                })
            })
        };
        self.until("an answer to Ada with the picture", answered, false)
            .await?;
        self.until("the receipt", |world| receipts(world, at) == 1, false)
            .await
    }

    /// Ben, who holds the project as well, goes on in the thread without a mention.
    async fn second_speaker(&self, at: &str) -> anyhow::Result<()> {
        self.act(json!({"as": "ben", "do": "say", "in": at, "text": "which month was the best?"}))
            .await?;
        let answered = |world: &Value| {
            thread(world, at).is_some_and(|it| {
                bots(it).any(|message| {
                    message["content"]
                        .as_str()
                        .is_some_and(|text| text.contains("ben"))
                })
            })
        };
        self.until("an answer that knows that Ben speaks", answered, false)
            .await?;
        self.until("his receipt", |world| receipts(world, at) == 2, false)
            .await
    }

    /// Cleo has no grant: she is told so, and no thread opens.
    async fn refusal(&self) -> anyhow::Result<()> {
        let message = self
            .act(json!({"as": "cleo", "do": "say", "in": "general", "text": "@innkeeper what is in site?"}))
            .await?["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let told = |world: &Value| {
            channel(world, "general").is_some_and(|it| {
                bots(it).any(|notice| notice["reply_to"].as_str() == Some(message.as_str()))
            })
        };
        self.until("a notice for Cleo", told, false).await?;
        if thread(&self.standin.world(), &message).is_some() {
            bail!("a thread opened for somebody without a grant");
        }
        Ok(())
    }

    /// Ada starts something long and stops it; nothing of it is left.
    async fn stopped(&self) -> anyhow::Result<Duration> {
        let text = "@innkeeper please wait\n!bash date +%s%3N > started; sleep 600 # long";
        let at = self
            .act(json!({"as": "ada", "do": "say", "in": "data", "text": text}))
            .await?["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let row = |world: &Value| {
            let live = thread(world, &at).and_then(|it| bots(it).next())?;
            live["content"]
                .as_str()?
                .contains("sleep 600")
                .then(|| live["id"].as_str().unwrap_or_default().to_owned())
        };
        self.until(
            "the row of the long command",
            |world| row(world).is_some(),
            false,
        )
        .await?;
        let seen = now_ms();
        let lag = self.started(&at).map_or(Duration::ZERO, |began| {
            Duration::from_millis(seen.saturating_sub(began))
        });
        let live = row(&self.standin.world()).context("the live message is gone")?;
        self.act(json!({"as": "ada", "do": "press", "message": live, "button": "Stop"}))
            .await?;
        self.until(
            "the receipt of a stopped turn",
            |world| receipts(world, &at) == 1,
            false,
        )
        .await?;
        if let Some(left) = running("sleep 600 # long") {
            bail!("a process of the stopped turn is left: {left}");
        }
        Ok(lag)
    }

    /// Reads when the long command began, from the file that it wrote.
    fn started(&self, at: &str) -> Option<u64> {
        let accounts = std::fs::read_dir(self.homes).ok()?;
        accounts.flatten().find_map(|account| {
            let file = account.path().join(format!("chat-{at}/started"));
            std::fs::read_to_string(file).ok()?.trim().parse().ok()
        })
    }

    async fn usage(&self) -> anyhow::Result<()> {
        let reply = self
            .act(
                json!({"as": "ada", "do": "command", "in": "data", "name": "usage", "options": {}}),
            )
            .await?;
        let text = reply["reply"]["content"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if !text.contains("site") || !text.contains('$') {
            bail!("/usage does not tell what Ada spent: {text:?}");
        }
        let shown = Names::of(&self.standin.world()).shown(&text);
        say(&format!(
            "ada uses /usage and sees:\n{}\n\n",
            indent(&shown)
        ));
        Ok(())
    }

    async fn act(&self, action: Value) -> anyhow::Result<Value> {
        // A command exists once the bot has registered it.
        let patience = Instant::now() + PATIENCE;
        loop {
            match self.standin.act(&action).await {
                Ok(answer) => return Ok(answer),
                Err(_) if action["do"] == "command" && Instant::now() < patience => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(reason) => bail!("{action} was refused: {reason}"),
            }
        }
    }

    /// Waits until the world shows something; woken by each change of it.
    async fn until(
        &self,
        what: &str,
        shown: impl Fn(&Value) -> bool,
        connected: bool,
    ) -> anyhow::Result<()> {
        let mut changes = self.standin.changes();
        let watch = async {
            loop {
                if (!connected || self.standin.listeners() > 0) && shown(&self.standin.world()) {
                    return;
                }
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, watch).await {
            Ok(()) => {
                complain(&format!("seen: {what}"));
                Ok(())
            }
            Err(_) => bail!("{what} did not come within {} s", PATIENCE.as_secs()),
        }
    }
}

fn channel<'a>(world: &'a Value, name: &str) -> Option<&'a Value> {
    list(&world["guilds"][0], "channels").find(|channel| channel["name"] == name)
}

fn thread<'a>(world: &'a Value, id: &str) -> Option<&'a Value> {
    list(&world["guilds"][0], "channels")
        .flat_map(|channel| list(channel, "threads"))
        .find(|thread| thread["id"] == id)
}

/// Returns the bot's messages in a place; the system's own, which have no words, are none.
fn bots(place: &Value) -> impl Iterator<Item = &Value> {
    let is_ours = |message: &&Value| message["author"] == "innkeeper" && message["deleted"] != true;
    list(place, "messages")
        .filter(is_ours)
        .filter(|message| !transcript::is_empty(message))
}

fn receipts(world: &Value, at: &str) -> usize {
    let is_receipt = |message: &&Value| {
        message["content"]
            .as_str()
            .is_some_and(|text| text.starts_with("-# "))
    };
    thread(world, at).map_or(0, |it| bots(it).filter(is_receipt).count())
}

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn now_ms() -> u64 {
    use crate::driver::clock::{Clock as _, SystemClock};
    SystemClock.now().0.unsigned_abs()
}

/// Returns a process of this machine whose command line holds `words`.
fn running(words: &str) -> Option<String> {
    let own = std::process::id().to_string();
    std::fs::read_dir("/proc")
        .ok()?
        .flatten()
        .find_map(|process| {
            let name = process.file_name().into_string().ok()?;
            let line = std::fs::read(process.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            (name != own && name.parse::<u32>().is_ok() && line.contains(words)).then_some(line)
        })
}

fn ledger(books: &Store, names: &Names) -> anyhow::Result<String> {
    let entries = books.entries(&EntryFilter::default())?;
    if entries.len() < 3 {
        bail!(
            "the ledger has {} entries, and three turns ran",
            entries.len()
        );
    }
    let mut text = String::from("the ledger (≈: as the agent says, for lack of a meter):\n");
    for entry in entries {
        let mark = if entry.estimated { "≈" } else { "" };
        text += &format!(
            "  turn {} · {} · {} · {mark}{}\n",
            entry.turn,
            names.shown(&format!("<@{}>", entry.member)),
            entry.project,
            entry.cost
        );
    }
    Ok(text)
}
