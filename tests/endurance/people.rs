//! What people do: ask in channels, threads and by command, change their minds, stop, try again.

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::house::{self, GUESTS, House};

const CHANNELS: [&str; 3] = ["one", "two", "three"];

/// Threads that are written in; older ones are left alone.
const LIVELY: usize = 6;

/// Requests that may be open at once; beyond it people wait.
const OPEN: usize = 10;

/// How a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Mention,
    FollowUp,
    /// A mention with nothing else: always refused, each time.
    Empty,
    /// By somebody who may not.
    Stranger,
    /// `/ask`: only what was answered counts, since the person sees when it was not.
    Command,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Its message; unknown for commands.
    pub(crate) message: Option<u64>,
    pub(crate) by: By,
    /// What its agent writes down and calls its file.
    pub(crate) mark: String,
    pub(crate) writes: bool,
    pub(crate) deleted: bool,
}

#[derive(Default)]
pub(crate) struct People {
    pub(crate) requests: Vec<Request>,
    threads: Vec<u64>,
    commands: JoinSet<Option<String>>,
    /// Marks of the commands that were answered with a thread.
    pub(crate) taken: Vec<String>,
    number: u32,
}

impl People {
    pub(crate) fn new() -> People {
        People::default()
    }

    /// Lets somebody do something.
    pub(crate) async fn act(&mut self, house: &House, random: &mut StdRng) {
        match random.random_range(0..100) {
            0..30 => self.mention(house, random).await,
            30..64 => self.follow_up(house, random).await,
            64..74 => self.command(house, random),
            74..79 => self.press_stop(house, random).await,
            79..82 => self.stop(house, random),
            82..84 => self.press_retry(house, random).await,
            84..89 => self.edit(house, random).await,
            89..94 => self.delete(house, random).await,
            94..98 => self.say_nothing(house, random).await,
            _ => self.stranger(house, random).await,
        }
    }

    fn mark(&mut self) -> String {
        self.number += 1;
        format!("r{}", self.number)
    }

    async fn say(&mut self, house: &House, who: &str, place: &str, text: &str, request: Request) {
        let action = json!({"as": who, "do": "say", "in": place, "text": text});
        // A thread may have been left meanwhile; then nothing was asked.
        if let Ok(said) = house.act(action).await {
            let message = Some(house::id_of(&said));
            self.requests.push(Request { message, ..request });
        }
    }

    async fn mention(&mut self, house: &House, random: &mut StdRng) {
        let (mark, writes) = (self.mark(), random.random_bool(0.5));
        let text = format!("@innkeeper please\n{}", work(house, &mark, writes, random));
        let request = Request {
            message: None,
            by: By::Mention,
            mark,
            writes,
            deleted: false,
        };
        let place = CHANNELS.choose(random).unwrap();
        self.say(house, who(random), place, &text, request).await;
        self.threads
            .extend(self.requests.last().and_then(|request| request.message));
    }

    async fn follow_up(&mut self, house: &House, random: &mut StdRng) {
        let lively = &self.threads[self.threads.len().saturating_sub(LIVELY)..];
        let Some(thread) = lively.choose(random).map(u64::to_string) else {
            return self.mention(house, random).await;
        };
        let (mark, writes) = (self.mark(), random.random_bool(0.5));
        let text = work(house, &mark, writes, random);
        let request = Request {
            message: None,
            by: By::FollowUp,
            mark,
            writes,
            deleted: false,
        };
        self.say(house, who(random), &thread, &text, request).await;
    }

    fn command(&mut self, house: &House, random: &mut StdRng) {
        let (mark, writes) = (self.mark(), random.random_bool(0.5));
        let text = work(house, &mark, writes, random);
        let action = json!({
            "as": who(random), "do": "command", "in": CHANNELS.choose(random).unwrap(), "name": "ask",
            "options": {"project": "site", "prompt": text},
        });
        self.requests.push(Request {
            message: None,
            by: By::Command,
            mark: mark.clone(),
            writes,
            deleted: false,
        });
        let (client, url) = house.hands();
        self.commands.spawn(async move {
            let told = house::act(&client, &url, action).await.ok()?;
            let reply = told["reply"]["content"].as_str()?;
            reply.contains("<#").then_some(mark)
        });
    }

    async fn press_stop(&mut self, house: &House, random: &mut StdRng) {
        self.press(house, random, "olga", "Stop", "1:stop:").await;
    }

    /// Asks once more for what could not be done, as somebody who may.
    async fn press_retry(&mut self, house: &House, random: &mut StdRng) {
        let who = who(random);
        self.press(house, random, who, "Retry", "1:retry:").await;
    }

    /// Presses one of the buttons that there are.
    async fn press(
        &mut self,
        house: &House,
        random: &mut StdRng,
        who: &str,
        button: &str,
        id: &str,
    ) {
        let world = house.world().await;
        let all: Vec<&Value> = house::places(&world)
            .into_iter()
            .flat_map(house::bots)
            .filter(|message| house::buttons(message).iter().any(|it| it.starts_with(id)))
            .collect();
        if let Some(message) = all.choose(random) {
            let press =
                json!({"as": who, "do": "press", "message": message["id"], "button": button});
            self.do_unheard(house, press);
        }
    }

    /// Uses `/stop` in a thread, whatever runs or waits there.
    fn stop(&mut self, house: &House, random: &mut StdRng) {
        let lively = &self.threads[self.threads.len().saturating_sub(LIVELY)..];
        if let Some(thread) = lively.choose(random) {
            let stop =
                json!({"as": "olga", "do": "command", "in": thread.to_string(), "name": "stop"});
            self.do_unheard(house, stop);
        }
    }

    /// Does something to which nobody may be there to answer.
    fn do_unheard(&mut self, house: &House, action: Value) {
        let (client, url) = house.hands();
        self.commands.spawn(async move {
            let _ = house::act(&client, &url, action).await;
            None
        });
    }

    fn recent(&mut self, random: &mut StdRng) -> Option<&mut Request> {
        let from = self.requests.len().saturating_sub(5);
        let said: Vec<usize> = (from..self.requests.len())
            .filter(|at| {
                let request = &self.requests[*at];
                matches!(request.by, By::Mention | By::FollowUp) && !request.deleted
            })
            .collect();
        said.choose(random).map(|at| &mut self.requests[*at])
    }

    async fn edit(&mut self, house: &House, random: &mut StdRng) {
        let pause = random.random_range(0..10);
        let Some(request) = self.recent(random) else {
            return;
        };
        let mention = if request.by == By::Mention {
            "@innkeeper "
        } else {
            ""
        };
        let text = format!(
            "{mention}changed\n{}!sleep 0.{pause}\n!say answer {}",
            performed(house, &request.mark),
            request.mark
        );
        let message = request.message.unwrap_or(0).to_string();
        for name in GUESTS {
            let action = json!({"as": name, "do": "edit", "message": message, "text": text});
            if house.act(action).await.is_ok() {
                // Whichever of the two texts runs.
                request.writes = false;
                return;
            }
        }
    }

    async fn delete(&mut self, house: &House, random: &mut StdRng) {
        let Some(request) = self.recent(random) else {
            return;
        };
        let message = request.message.unwrap_or(0).to_string();
        for name in GUESTS {
            let action = json!({"as": name, "do": "delete", "message": message});
            if house.act(action).await.is_ok() {
                request.deleted = true;
                return;
            }
        }
    }

    async fn say_nothing(&mut self, house: &House, random: &mut StdRng) {
        let request = Request {
            message: None,
            by: By::Empty,
            mark: self.mark(),
            writes: false,
            deleted: false,
        };
        let place = CHANNELS.choose(random).unwrap();
        self.say(house, who(random), place, "@innkeeper", request)
            .await;
    }

    async fn stranger(&mut self, house: &House, random: &mut StdRng) {
        let mark = self.mark();
        let text = format!("@innkeeper {}", performed(house, &mark));
        let request = Request {
            message: None,
            by: By::Stranger,
            mark,
            writes: false,
            deleted: false,
        };
        let place = CHANNELS.choose(random).unwrap();
        self.say(house, "cleo", place, &text, request).await;
    }

    /// Waits while too much is open, so that the house can keep up.
    pub(crate) async fn rest(&mut self, house: &House) {
        house
            .until("fewer turns are open", |world| {
                let live = |place: &&Value| {
                    house::bots(place).any(|message| {
                        house::buttons(message)
                            .iter()
                            .any(|id| id.starts_with("1:stop:"))
                    })
                };
                house::places(world).into_iter().filter(live).count() < OPEN
            })
            .await;
    }

    /// Hears the answers to all commands.
    pub(crate) async fn finish(&mut self) {
        while let Some(told) = self.commands.join_next().await {
            self.taken.extend(told.unwrap());
        }
    }
}

fn who(random: &mut StdRng) -> &'static str {
    GUESTS.choose(random).unwrap()
}

/// What an agent does first: it writes down that it does it, where no account reaches.
fn performed(house: &House, mark: &str) -> String {
    format!(
        "!bash echo {mark} >>{}\n",
        house.shared("performed").display()
    )
}

/// What a request asks for.
fn work(house: &House, mark: &str, writes: bool, random: &mut StdRng) -> String {
    let mut text = performed(house, mark);
    match random.random_range(0..4) {
        0 => {}
        1 => text.push_str(&format!(
            "!step Bash make for 0.{}\n",
            random.random_range(1..10)
        )),
        2 => text.push_str(&format!(
            "!sleep {}.{}\n",
            random.random_range(0..3),
            random.random_range(0..10)
        )),
        _ => text.push_str("!tasks look; build; test\n!cost 0.01\n"),
    }
    if writes {
        let written = house.shared("written");
        text.push_str(&format!(
            "!write {mark}.txt {mark}\n!bash echo {mark} >>{}\n",
            written.display()
        ));
    }
    if random.random_bool(0.2) {
        text.push_str(&format!("!long {}", random.random_range(1..9) * 1000));
    } else {
        text.push_str(&format!("!say answer {mark}"));
    }
    text
}
