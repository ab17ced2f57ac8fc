use std::io::{BufReader, PipeReader, PipeWriter};
use std::sync::{Arc, Mutex};

use super::super::input::tests::{inbox, reading};
use super::*;
use crate::agent::decode::decode;
use crate::agent::event::{Event, Outcome};
use crate::agent::lines::Lines;
use crate::agent::prompt::{allow_line, deny_line, interrupt_line, user_line};

/// What an agent wrote, readable while it writes.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Page {
    fn events(&self) -> Vec<Event> {
        let bytes = self.0.lock().unwrap().clone();
        let mut lines = Lines::new(1 << 20);
        let mut found = lines.push(&bytes);
        found.extend(lines.finish());
        found.iter().flat_map(decode).collect()
    }

    /// Waits until it holds an event like this.
    fn wait<T>(&self, find: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            if let Some(found) = self.events().iter().find_map(&find) {
                return found;
            }
            std::thread::yield_now();
        }
    }
}

struct House {
    folder: tempfile::TempDir,
    page: Page,
}

impl House {
    fn new() -> House {
        House {
            folder: tempfile::tempdir().unwrap(),
            page: Page::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn agent(&self, inbox: Inbox, resumes: bool, asks: bool) -> Agent<Page> {
        let given = Given {
            mode: if asks { "default" } else { "dontAsk" }.to_owned(),
            asks,
            tools: vec!["Read".to_owned(), "Agent".to_owned()],
            model: "haiku".to_owned(),
            max_turns: 9,
            session: "11111111-2222-4333-8444-555555555555".to_owned(),
            resumes,
        };
        let session = Session::open(&given, &self.path("config"), self.folder.path());
        Agent {
            stream: Stream::new(self.page.clone(), &given),
            given,
            inbox,
            session: session.ok().unwrap(),
            workspace: self.folder.path().to_owned(),
            tally: Some(self.path("tally")),
            cost: Usd::ZERO,
            failed: false,
        }
    }

    /// Feeds one message; returns the exit code and the events.
    fn plays(&self, script: &str) -> (u8, Vec<Event>) {
        let code = self
            .agent(inbox(&[user_line("1", script)]), false, true)
            .work();
        (code, self.page.events())
    }

    /// Starts an agent that is spoken to while it works.
    fn starts(&self) -> (PipeWriter, std::thread::JoinHandle<u8>) {
        let (reader, writer): (PipeReader, PipeWriter) = std::io::pipe().unwrap();
        let mut agent = self.agent(reading(BufReader::new(reader)), false, true);
        (writer, std::thread::spawn(move || agent.work()))
    }
}

fn outcomes(events: &[Event]) -> Vec<&Outcome> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Result(outcome) => Some(outcome),
            _ => None,
        })
        .collect()
}

/// Names and ends of the tools, in their order.
fn tools(events: &[Event]) -> String {
    let words = events.iter().filter_map(|event| match event {
        Event::ToolStarted(call) => Some(call.name.clone()),
        Event::ToolEnded { failed, .. } => Some(if *failed { "✗" } else { "✓" }.to_owned()),
        _ => None,
    });
    words.collect::<Vec<_>>().join(" ")
}

fn say(to: &mut PipeWriter, line: &str) {
    writeln!(to, "{line}").unwrap();
}

#[test]
fn a_script_is_played_in_the_real_programs_words() {
    let house = House::new();
    let (code, events) = house.plays(
        "<from word=\"w\" id=\"1\" name=\"Ada\"/>\n!think\n!step Grep x for 0 fails\n!bash echo hi; exit 3\n!write a/b.txt hello\n!read a/b.txt\n!png p.png\n!tasks one; two\n!cost 0.5\n!say It is done.",
    );
    assert_eq!(code, 1, "nine calls are allowed");
    assert!(tools(&events).starts_with("Grep ✗ Bash ✗ Write ✓ Read ✓ Write ✓ TaskCreate ✓"));
    assert!(
        matches!(&events[0], Event::Init(init) if init.permission_mode == "default"
        && init.tools == ["Read", "Task"] && init.model == "claude-haiku-4-5-20251001")
    );
    assert!(matches!(&events[1], Event::Echo { id: Some(id), .. } if id == "1"));
    assert_eq!(
        std::fs::read_to_string(house.path("a/b.txt")).unwrap(),
        "hello"
    );
    assert_eq!(image::open(house.path("p.png")).unwrap().width(), 640);
    assert_eq!(outcomes(&events)[0].subtype, "error_max_turns");
}

#[test]
fn a_command_that_leaves_something_running_is_not_waited_for() {
    let (_, events) = House::new().plays("!bash sleep 600 & echo told $!");
    let told = events.iter().find_map(|event| match event {
        Event::ToolEnded { output, .. } => output.strip_prefix("told "),
        _ => None,
    });
    let left = nix::unistd::Pid::from_raw(told.unwrap().parse().unwrap());
    nix::sys::signal::kill(left, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn an_answer_comes_in_pieces_and_whole_and_costs_something() {
    let (code, events) = House::new().plays("!cost 0.5\n!long 1000");
    assert_eq!(code, 0);
    let pieces: String = events
        .iter()
        .filter_map(|event| match event {
            Event::TextDelta(piece) => Some(piece.as_str()),
            _ => None,
        })
        .collect();
    let outcome = outcomes(&events)[0];
    assert_eq!(outcome.text.chars().count(), 1000);
    assert_eq!(pieces, outcome.text);
    assert_eq!(outcome.total_cost, Usd(500_000 + 2_400 + 2_000));
}

#[test]
fn an_error_looks_like_the_providers() {
    let (code, events) = House::new().plays("!error Overloaded\n!say never");
    let outcome = outcomes(&events)[0];
    assert_eq!(code, 1);
    assert!(outcome.is_error && outcome.subtype == "success" && outcome.text == "Overloaded");
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, Event::Text { .. }))
    );
}

#[test]
fn it_can_end_without_a_result_and_write_what_is_no_line() {
    for (script, code) in [
        ("!garbage\n!raw {\"type\":\"news\"}\n!no-result", 0),
        ("!garbage\n!raw {\"type\":\"news\"}\n!die", 1),
    ] {
        let (found, events) = House::new().plays(script);
        assert_eq!(found, code);
        assert_eq!(
            events[2..],
            [
                Event::Unreadable,
                Event::Unknown {
                    kind: "news".to_owned()
                }
            ]
        );
    }
}

#[test]
fn a_session_counts_and_an_id_that_comes_again_is_not_listened_to() {
    let house = House::new();
    house.plays("hello");
    let lines = [user_line("1", "again"), user_line("2", "and you?")];
    house.agent(inbox(&lines), true, true).work();
    let events = house.page.events();
    let answers: Vec<&str> = outcomes(&events)
        .iter()
        .map(|outcome| outcome.text.as_str())
        .collect();
    assert_eq!(answers.len(), 2);
    assert!(
        answers[0].contains("the first request") && answers[1].contains("request number 2"),
        "{answers:?}"
    );
}

#[test]
fn a_plot_of_attached_data_is_drawn() {
    let house = House::new();
    std::fs::write(house.path("in.csv"), "a,1\nb,-2\n").unwrap();
    let (_, events) = house.plays(&format!(
        "<from word=\"w\" name=\"Ada\"/>\n[attached file: {}, named \"in.csv\"]\nplot it",
        house.path("in.csv").display()
    ));
    assert_eq!(tools(&events), "Read ✓ Bash ✓ Write ✓");
    assert!(house.path("plot.png").exists());
    assert_eq!(outcomes(&events)[0].text, "Here is the plot of `in.csv`.");
}

#[test]
fn people_are_asked_and_answers_are_used() {
    let house = House::new();
    let (mut to, agent) = house.starts();
    say(
        &mut to,
        &user_line("1", "!ask Which? | Red | Blue\n!ask-permission Deploy"),
    );
    let asked = |tool: &'static str| {
        move |event: &Event| match event {
            Event::Permission(asked) if asked.tool == tool => Some(asked.clone()),
            _ => None,
        }
    };
    let question = house.page.wait(asked(ASK_TOOL));
    assert_eq!(
        question.input["questions"][0]["options"][1]["label"],
        "Blue"
    );
    let mut input = question.input;
    input["answers"] = json!({"Which?": "Blue"});
    say(&mut to, &allow_line(&question.request_id, &input));
    let permission = house.page.wait(asked("Deploy"));
    say(&mut to, &deny_line(&permission.request_id, "not at chat"));
    drop(to);
    assert_eq!(agent.join().unwrap(), 0);
    let events = house.page.events();
    assert_eq!(tools(&events), format!("{ASK_TOOL} ✓ Deploy ✗"));
    assert_eq!(outcomes(&events)[0].text, "You chose: Blue");
    assert_eq!(outcomes(&events)[0].denied, ["Deploy"]);
}

#[test]
fn where_nobody_can_be_asked_the_answer_is_no() {
    let house = House::new();
    house
        .agent(
            inbox(&[user_line("1", "!ask-permission Deploy")]),
            false,
            false,
        )
        .work();
    assert_eq!(tools(&house.page.events()), "Deploy ✗");
}

#[test]
fn an_interrupt_ends_the_turn_with_its_command_and_not_the_program() {
    let house = House::new();
    let (mut to, agent) = house.starts();
    say(
        &mut to,
        &user_line("1", "!bash touch began; sleep 60; touch ended"),
    );
    while !house.path("began").exists() {
        std::thread::yield_now();
    }
    say(&mut to, &interrupt_line("stop"));
    house
        .page
        .wait(|event| matches!(event, Event::Result(_)).then_some(()));
    say(&mut to, &user_line("2", "!say Still here."));
    drop(to);
    assert_eq!(agent.join().unwrap(), 0);
    let events = house.page.events();
    let ends = outcomes(&events);
    assert_eq!(ends[0].terminal_reason.as_deref(), Some("aborted_tools"));
    assert!(ends[0].is_error);
    assert_eq!(ends[1].text, "Still here.");
    assert!(!house.path("ended").exists());
}

#[test]
fn what_is_said_meanwhile_joins_the_turn() {
    let house = House::new();
    let (mut to, agent) = house.starts();
    say(
        &mut to,
        &user_line("1", "!ask-permission Deploy\n!say first"),
    );
    let request = house.page.wait(|event| match event {
        Event::Permission(asked) => Some(asked.request_id.clone()),
        _ => None,
    });
    say(&mut to, &user_line("2", "!say second"));
    say(&mut to, &deny_line(&request, "no"));
    drop(to);
    agent.join().unwrap();
    let events = house.page.events();
    let ends = outcomes(&events);
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].text, "second");
    let echoes = events
        .iter()
        .filter(|event| matches!(event, Event::Echo { .. }));
    assert_eq!(echoes.count(), 2);
}

#[test]
fn each_finished_turn_stands_in_the_tally() {
    let house = House::new();
    let lines = [user_line("1", "!say a"), user_line("2", "!cost 1\n!say b")];
    house.agent(inbox(&lines), false, true).work();
    let tally = std::fs::read_to_string(house.path("tally")).unwrap();
    let lines: Vec<Value> = tally
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let total: u64 = lines.iter().filter_map(|line| line["cost"].as_u64()).sum();
    let events = house.page.events();
    assert_eq!(
        outcomes(&events).last().map(|outcome| outcome.total_cost),
        Some(Usd(total))
    );
}
