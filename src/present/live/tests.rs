use serde_json::{Value, json};

use super::*;
use crate::agent::event::{Event as Told, Outcome, ToolCall, ToolId};
use crate::domain::ids::{MemberId, TurnId};
use crate::domain::money::Usd;
use crate::turn::event::{Collected, Event};
use crate::turn::facts::{Secrets, TurnFacts, TurnLimits};

/// A turn on the stage: what the tests of this room look at.
pub(crate) struct Play {
    pub(crate) turn: Turn,
    pub(crate) now: Moment,
}

impl Play {
    pub(crate) fn new() -> Play {
        Play::with(Secrets::default())
    }

    fn with(secrets: Secrets) -> Play {
        let facts = TurnFacts {
            id: TurnId(42),
            author: MemberId(7),
            model: "haiku".into(),
            project: "site".parse().unwrap(),
            title: "The site".into(),
            mode: "default".into(),
            resumes: false,
            limits: TurnLimits {
                turn_time: Duration::from_secs(1_800),
                silence: Duration::from_secs(600),
                grace: Duration::from_secs(5),
            },
            at: Moment(0),
            secrets,
        };
        Play {
            turn: Turn::new(facts, Moment(0)),
            now: Moment(0),
        }
    }

    pub(crate) fn starting() -> Play {
        let mut play = Play::new();
        play.tell(Event::Held(Usd(1_000_000)));
        play
    }

    pub(crate) fn running() -> Play {
        let mut play = Play::starting();
        play.tell(Event::Started);
        play
    }

    pub(crate) fn with_secret(secret: &str) -> Play {
        let mut play = Play::with(Secrets(vec![secret.into()]));
        play.tell(Event::Held(Usd(1_000_000)));
        play.tell(Event::Started);
        play
    }

    pub(crate) fn at(&mut self, seconds: i64) -> &mut Play {
        self.now = Moment(seconds * 1_000);
        self
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.turn.handle(event, self.now);
    }

    pub(crate) fn hears(&mut self, told: Told) {
        self.tell(Event::Agent(told));
    }

    pub(crate) fn says(&mut self, text: &str) {
        self.hears(Told::Text {
            text: text.into(),
            parent: None,
        });
    }

    pub(crate) fn starts(&mut self, id: &str, tool: &str, input: Value) {
        self.starts_in(id, tool, input, None);
    }

    pub(crate) fn starts_in(&mut self, id: &str, tool: &str, input: Value, parent: Option<&str>) {
        self.hears(Told::ToolStarted(ToolCall {
            id: ToolId(id.into()),
            name: tool.into(),
            input,
            parent: parent.map(|parent| ToolId(parent.into())),
        }));
    }

    pub(crate) fn did(&mut self, id: &str, failed: bool, output: &str) {
        self.hears(Told::ToolEnded {
            id: ToolId(id.into()),
            failed,
            output: output.into(),
        });
    }

    pub(crate) fn result(&mut self, outcome: Outcome) {
        self.hears(Told::Result(outcome));
    }

    pub(crate) fn ends(&mut self, exit: Option<i32>) {
        self.tell(Event::Ended(exit));
    }

    fn live(&self) -> String {
        live(&self.turn, self.now)
    }
}

pub(crate) fn outcome(text: &str) -> Outcome {
    Outcome {
        is_error: false,
        subtype: "success".into(),
        terminal_reason: Some("completed".into()),
        stop_reason: Some("end_turn".into()),
        text: text.into(),
        errors: vec![],
        api_status: None,
        total_cost: Usd(31_150),
        turns: 1,
        duration: Duration::from_secs(1),
        session: None,
        denied: vec![],
        origin: None,
    }
}

pub(crate) fn failed(text: &str, status: Option<u16>) -> Outcome {
    Outcome {
        is_error: true,
        api_status: status,
        ..outcome(text)
    }
}

#[test]
fn a_turn_that_starts_says_where_and_with_what() {
    assert_eq!(Play::new().live(), "⏳ Starting · site · haiku");
    assert_eq!(
        Play::starting().at(3).live(),
        "⏳ Starting · site · haiku · 3 s"
    );
}

/// What the CLI's tool answers that adds to its task list.
fn created(number: u32, subject: &str) -> String {
    format!("Task #{number} created successfully: {subject}")
}

#[test]
fn a_running_turn_shows_steps_tasks_and_the_newest_words() {
    let mut play = Play::running();
    play.starts("t1", "TaskCreate", json!({"subject": "Read the data"}));
    play.did("t1", false, &created(1, "Read the data"));
    play.starts("t2", "TaskCreate", json!({"subject": "Plot *it*"}));
    play.did("t2", false, &created(2, "Plot it"));
    play.starts(
        "t3",
        "TaskUpdate",
        json!({"taskId": "1", "status": "completed"}),
    );
    play.did("t3", false, "");
    play.starts("a", "Read", json!({"file_path": "data.csv"}));
    play.did("a", false, "…");
    play.starts("b", "Bash", json!({"command": "python plot.py --fast"}));
    play.did("b", true, "no such option");
    play.says("That option does not exist.\nI run it *without*.");
    play.at(7)
        .starts("c", "Agent", json!({"description": "Check the axes"}));
    play.starts_in("d", "Grep", json!({"pattern": "x_axis"}), Some("c"));
    play.did("d", false, "");
    play.starts("e", "Bash", json!({"command": "python plot.py"}));
    play.at(41);
    insta::assert_snapshot!(play.live(), @r"
    ⏳ Working · site · haiku · 41 s
    ✓ Read: data.csv
    ✗ Bash: python plot.py --fast
    ⏳ Agent: Check the axes · 34 s
    ↳ ✓ Grep: x_axis
    ⏳ Bash: python plot.py · 34 s
    ☑ Read the data
    ☐ Plot \*it\*
    > That option does not exist. I run it \*without\*.
    ");
}

#[test]
fn many_steps_are_counted_and_those_at_work_stay_visible() {
    let mut play = Play::running();
    play.starts("slow", "Bash", json!({"command": "make"}));
    for n in 0..20 {
        play.starts(
            &n.to_string(),
            "Read",
            json!({"file_path": format!("{n}.txt")}),
        );
        play.did(&n.to_string(), false, "");
    }
    insta::assert_snapshot!(play.at(60).live(), @r"
    ⏳ Working · site · haiku · 1 min
    -# … 15 earlier steps
    ⏳ Bash: make · 1 min
    ✓ Read: 15.txt
    ✓ Read: 16.txt
    ✓ Read: 17.txt
    ✓ Read: 18.txt
    ✓ Read: 19.txt
    ");
}

#[test]
fn the_steps_of_sub_agents_stand_behind_their_own() {
    let mut play = Play::running();
    for agent in ["A", "B"] {
        play.starts(agent, "Agent", json!({"description": agent}));
    }
    for (id, agent) in [("1", "A"), ("2", "B"), ("3", "A")] {
        play.starts_in(
            id,
            "Bash",
            json!({"command": format!("echo {id}")}),
            Some(agent),
        );
        play.did(id, false, "");
    }
    insta::assert_snapshot!(play.live(), @r"
    ⏳ Working · site · haiku
    ⏳ Agent: A · 0 s
    ↳ ✓ Bash: echo 1
    ↳ ✓ Bash: echo 3
    ⏳ Agent: B · 0 s
    ↳ ✓ Bash: echo 2
    ");
}

#[test]
fn waiting_has_its_notes() {
    let mut play = Play::running();
    play.hears(Told::Retry {
        attempt: 2,
        of: 3,
        wait: Duration::from_secs(4),
        status: Some(529),
    });
    assert!(play.live().ends_with("trying again in 4 s (2 of 3)"));
    play.at(10).tell(Event::Away);
    play.at(25)
        .tell(Event::StopRequested(Stop::By(MemberId(7))));
    insta::assert_snapshot!(play.live(), @r"
    ⏳ Stopping… · site · haiku · 25 s
    -# Waiting for the sandbox · 15 s
    -# The provider is overloaded; trying again (2 of 3)
    ");
}

#[test]
fn nothing_changes_but_what_people_see() {
    let mut play = Play::running();
    play.says("Hello.");
    let before = play.at(5).live();
    play.now = Moment(5_999);
    play.hears(Told::Unknown {
        kind: "banana".into(),
    });
    assert_eq!(play.live(), before);
    assert_ne!(play.at(6).live(), before);
}

#[test]
fn the_live_message_always_fits_and_never_shows_a_secret() {
    let secret = "hunter_2*hunter_3";
    let mut play = Play::with_secret(secret);
    for n in 0..40 {
        let command = format!("{} {secret}", "*".repeat(104));
        play.starts(&n.to_string(), "Bash", json!({"command": command}));
        let task = format!("t{n}");
        play.starts(&task, "TaskCreate", json!({"subject": "_ ".repeat(100)}));
        play.did(&task, false, "");
    }
    play.says(&format!(
        "{}{secret} {}",
        "_ ".repeat(900),
        "é ".repeat(144)
    ));
    let text = play.live();
    assert!(text.chars().count() <= LIMIT, "{}", text.chars().count());
    assert!(!text.contains("hunter"), "{text}");
    assert!(text.contains("⏳ Bash"));
}

#[test]
fn a_long_task_list_shows_what_is_still_to_be_done() {
    let mut play = Play::running();
    let todos: Vec<Value> = (0..20)
        .map(|n| json!({"content": format!("figure {n}"), "status": if n < 5 { "completed" } else { "pending" }}))
        .collect();
    play.starts("t", "TodoWrite", json!({"todos": todos}));
    play.did("t", false, "");
    let text = play.live();
    assert!(text.contains("-# ☑ 5 tasks done\n☐ figure 5\n"), "{text}");
    assert!(text.ends_with("☐ figure 12\n-# … 7 tasks more"), "{text}");
}

fn metered(cost: u64, estimated: bool) -> Event {
    let cost = Usd(cost);
    Event::Metered { cost, estimated }
}

fn receipt_of(prepare: impl FnOnce(&mut Play)) -> String {
    let mut play = Play::running();
    for n in 0..6 {
        play.starts(&n.to_string(), "Bash", json!({}));
        play.did(&n.to_string(), false, "");
    }
    play.at(41);
    prepare(&mut play);
    play.tell(Event::Collected(Collected::default()));
    receipt(&play.turn)
}

#[test]
fn a_receipt_says_what_a_turn_took() {
    let answered = |play: &mut Play| {
        play.result(outcome("Here it is."));
        play.ends(Some(0));
    };
    let counted = receipt_of(|play| {
        play.tell(metered(31_200, false));
        answered(play);
    });
    assert_eq!(counted, "-# ✓ 6 steps · 41 s · $0.0312 · haiku");
    let cut = receipt_of(|play| {
        play.tell(metered(31_200, true));
        answered(play);
    });
    assert_eq!(cut, "-# ✓ 6 steps · 41 s · ≈ $0.0312 · haiku");
    assert_eq!(
        receipt_of(answered),
        "-# ✓ 6 steps · 41 s · ≈ $0.0312 · haiku"
    );
}

#[test]
fn a_receipt_says_how_else_a_turn_ended() {
    let stopped = receipt_of(|play| {
        play.tell(metered(10_000, false));
        play.tell(Event::StopRequested(Stop::By(MemberId(7))));
        play.at(43).ends(Some(0));
    });
    assert_eq!(
        stopped,
        "-# ■ stopped by <@7> · 6 steps · 43 s · $0.01 · haiku"
    );
    let used_up = receipt_of(|play| {
        play.tell(metered(1_000_000, false));
        play.tell(Event::StopRequested(Stop::Limit(Usd(1_000_000))));
        play.ends(Some(0));
    });
    assert_eq!(
        used_up,
        "-# ■ stopped: limit of $1.00 reached · 6 steps · 41 s · $1.00 · haiku"
    );
    let failed = receipt_of(|play| {
        play.result(failed("API Error: Overloaded", None));
        play.ends(Some(1));
    });
    assert_eq!(failed, "-# ✗ failed · 6 steps · 41 s · ≈ $0.0312 · haiku");
    let early = receipt_of(|play| play.ends(Some(1)));
    assert_eq!(early, "-# ✗ ended early · 6 steps · 41 s · ≈ $1.00 · haiku");
}

#[test]
fn a_turn_that_never_ran_has_neither_time_nor_cost() {
    let mut play = Play::starting();
    play.tell(Event::NotStarted(Trouble::Full));
    assert_eq!(receipt(&play.turn), "-# ✗ not started · haiku");
}

#[test]
fn a_turn_without_a_place_says_what_it_waits_for_and_shows_no_clock() {
    let mut play = Play::new();
    play.tell(Event::NoPlace);
    assert_eq!(
        play.at(90).live(),
        "⏳ Waiting for a free place · site · haiku\n\
         -# As many turns run as may at once. This one starts by itself when one of them ends."
    );
}
