//! The scripted agent at work: messages come, turns are performed, results go out.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::agent::command::{ASK_TOOL, SHELL_TOOL};
use crate::domain::money::Usd;

use super::flags::Given;
use super::input::{Halt, Inbox, Said};
use super::script::{self, Directive};
use super::session::{Session, Unusable};
use super::stream::{Ending, Stream};
use super::{bash, picture, tale};

/// What one call of a model costs, and one character of its answer: about what a small model costs.
const CALL: Usd = Usd(2_400);
const CHARACTER: u64 = 2;

/// The most of a file that is shown, in characters.
const SHOWN: usize = 30_000;

/// How often is looked whether a file is there.
const LOOK: Duration = Duration::from_millis(20);

/// The numbers of a picture where no table was read.
const MADE_UP: [f64; 8] = [3.0, 5.0, 4.0, 7.0, 8.0, 6.0, 9.0, 11.0];

/// Runs until the input ends; returns the exit code.
pub(super) fn run(given: Given) -> u8 {
    let workspace = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let mut stream = Stream::new(std::io::stdout(), &given);
    match Session::open(&given, &config_directory(), &workspace) {
        Ok(session) => Agent {
            given,
            stream,
            inbox: Inbox::open(),
            session,
            workspace,
            tally: std::env::var_os("INNKEEPER_TALLY").map(PathBuf::from),
            cost: Usd::ZERO,
            failed: false,
        }
        .work(),
        Err(Unusable::Taken) => {
            eprintln!("Error: Session ID {} is already in use.", given.session);
            1
        }
        Err(Unusable::Unknown) => {
            let why = format!("No conversation found with session ID: {}", given.session);
            eprintln!("{why}");
            // Nobody may be reading any more; the code says the same.
            stream.result(&Ending::failed(vec![why])).ok();
            1
        }
    }
}

fn config_directory() -> PathBuf {
    std::env::var_os("CLAUDE_CONFIG_DIR").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".claude"),
        PathBuf::from,
    )
}

impl Ending<'_> {
    fn failed(errors: Vec<String>) -> Self {
        Ending {
            subtype: "error_during_execution",
            is_error: true,
            terminal_reason: None,
            stop_reason: None,
            text: "",
            errors,
            denied: &[],
            turns: 0,
            milliseconds: 0,
            cost: Usd::ZERO,
        }
    }
}

struct Agent<W: Write> {
    given: Given,
    stream: Stream<W>,
    inbox: Inbox,
    session: Session,
    workspace: PathBuf,
    /// Where finished turns are written down, for whoever checks the books.
    tally: Option<PathBuf>,
    /// Cost of the process so far.
    cost: Usd,
    /// Whether the last result was an error.
    failed: bool,
}

/// One turn in progress.
struct Turn {
    begun: Instant,
    prompt: String,
    cost_before: Usd,
    to_do: VecDeque<Directive>,
    answer: String,
    open_tool: Option<String>,
    denied: Vec<Value>,
    calls: u32,
    results: u32,
    error: Option<String>,
    linger: Duration,
    numbers: Vec<f64>,
}

impl<W: Write> Agent<W> {
    fn work(&mut self) -> u8 {
        loop {
            let halt = match self.inbox.next() {
                Ok(None) => return u8::from(self.failed),
                Ok(Some(said)) => self.hear(said).err(),
                Err(halt) => Some(halt),
            };
            match halt {
                Some(Halt::Exit(code)) => return code,
                Some(Halt::Signalled) => return u8::from(self.failed),
                Some(Halt::Interrupted) | None => {}
            }
        }
    }

    fn hear(&mut self, said: Said) -> Result<(), Halt> {
        let id = said.id.unwrap_or_else(|| Uuid::new_v4().to_string());
        if !self.session.hear(&id)? {
            return Ok(self.stream.echo(&id, &said.text)?);
        }
        let workspace = self.workspace.to_string_lossy().into_owned();
        self.stream.init(&self.given, &workspace)?;
        self.stream.echo(&id, &said.text)?;
        let mut turn = self.begin(said.text);
        match self.perform(&mut turn) {
            Ok(()) => {
                self.finish(&turn)?;
                self.inbox.pause(turn.linger)
            }
            Err(Halt::Exit(code)) => Err(Halt::Exit(code)),
            Err(halt) => {
                self.abort(&mut turn)?;
                Err(halt)
            }
        }
    }

    fn begin(&self, prompt: String) -> Turn {
        Turn {
            begun: Instant::now(),
            to_do: self.understand(&prompt).into(),
            prompt,
            cost_before: self.cost,
            answer: String::new(),
            open_tool: None,
            denied: Vec::new(),
            calls: 0,
            results: 0,
            error: None,
            linger: Duration::ZERO,
            numbers: MADE_UP.to_vec(),
        }
    }

    /// Returns what a text asks for. The invisible characters that made it harmless are no part of what people wrote.
    fn understand(&self, prompt: &str) -> Vec<Directive> {
        let plain = prompt.replace('\u{2060}', "");
        let directives = script::read(&plain);
        if directives.is_empty() {
            tale::tell(&tale::understand(&plain), self.session.count())
        } else {
            directives
        }
    }

    fn perform(&mut self, turn: &mut Turn) -> Result<(), Halt> {
        loop {
            self.inbox.wait(Duration::ZERO)?;
            self.join(turn)?;
            if turn.error.is_some() || turn.calls > self.given.max_turns {
                return Ok(());
            }
            match turn.to_do.pop_front() {
                Some(directive) => self.act(directive, turn)?,
                None if turn.answer.is_empty() => self.say("Done.", turn)?,
                None => return Ok(()),
            }
        }
    }

    /// Takes in what was said meanwhile: it becomes part of this turn, as in the real program.
    fn join(&mut self, turn: &mut Turn) -> Result<(), Halt> {
        for request in self.inbox.controls() {
            self.stream.control_response(&request)?;
        }
        while let Some(said) = self.inbox.steer() {
            let id = said.id.unwrap_or_else(|| Uuid::new_v4().to_string());
            let new = self.session.hear(&id)?;
            self.stream.echo(&id, &said.text)?;
            if new {
                turn.to_do.extend(self.understand(&said.text));
            }
        }
        Ok(())
    }

    fn act(&mut self, directive: Directive, turn: &mut Turn) -> Result<(), Halt> {
        match directive {
            Directive::Say(text) => self.say(&text, turn),
            Directive::Long(length) => self.say(&long(length), turn),
            Directive::Think => Ok(self.stream.thinking("Let me see.")?),
            Directive::Step {
                name,
                input,
                time,
                fails,
            } => self.step(&name, &input, time, fails, turn),
            Directive::Bash(command) => self.bash(&command, turn),
            Directive::Write { path, text } => self.write(&path, &text, turn),
            Directive::Read(path) => self.read(&path, turn),
            Directive::Png(path) => self.png(&path, turn),
            Directive::Tasks(tasks) => self.tasks(&tasks, turn),
            Directive::Ask { question, options } => self.ask(&question, &options, turn),
            Directive::AskPermission(tool) => self.ask_permission(&tool, turn),
            Directive::Cost(more) => {
                self.cost = self.cost + more;
                Ok(self.stream.hidden(more)?)
            }
            Directive::Sleep(time) => self.inbox.pause(time),
            Directive::WaitFor(file) => self.wait_for(&file),
            Directive::Silent => loop {
                self.inbox.pause(Duration::from_secs(3600))?;
            },
            Directive::Stubborn => {
                self.inbox.stubborn = true;
                Ok(())
            }
            Directive::Error(text) => {
                self.stream.synthetic(&text)?;
                turn.error = Some(text);
                Ok(())
            }
            Directive::NoResult => Err(Halt::Exit(0)),
            Directive::Die => Err(Halt::Exit(1)),
            Directive::Raw(line) => Ok(self.stream.raw(line.as_bytes())?),
            Directive::Garbage => Ok(self.stream.raw(b"\xff\xfe{\"type\":\"assist")?),
            Directive::Linger(time) => {
                turn.linger = time;
                Ok(())
            }
        }
    }

    fn say(&mut self, text: &str, turn: &mut Turn) -> Result<(), Halt> {
        let cost = CALL + Usd(CHARACTER * text.chars().count() as u64);
        self.stream.text(text, cost)?;
        text.clone_into(&mut turn.answer);
        turn.calls += 1;
        self.cost = self.cost + cost;
        Ok(())
    }

    fn open_tool(&mut self, name: &str, input: &Value, turn: &mut Turn) -> Result<String, Halt> {
        let tool = format!("toolu_{}", Uuid::new_v4().simple());
        self.stream.tool_use(&tool, name, input, CALL)?;
        turn.open_tool = Some(tool.clone());
        turn.calls += 1;
        self.cost = self.cost + CALL;
        Ok(tool)
    }

    fn close_tool(
        &mut self,
        tool: &str,
        output: &str,
        failed: bool,
        turn: &mut Turn,
    ) -> Result<(), Halt> {
        turn.open_tool = None;
        turn.results += 1;
        Ok(self.stream.tool_result(tool, output, failed)?)
    }

    fn step(
        &mut self,
        name: &str,
        input: &Value,
        time: Duration,
        fails: bool,
        turn: &mut Turn,
    ) -> Result<(), Halt> {
        let tool = self.open_tool(name, input, turn)?;
        self.inbox.pause(time)?;
        let output = if fails { "It failed." } else { "It worked." };
        self.close_tool(&tool, output, fails, turn)
    }

    fn bash(&mut self, command: &str, turn: &mut Turn) -> Result<(), Halt> {
        let tool = self.open_tool(SHELL_TOOL, &json!({"command": command}), turn)?;
        let (output, failed) = bash::run(
            command,
            &self.workspace,
            &self.given.session,
            &mut self.inbox,
        )?;
        self.close_tool(&tool, &output, failed, turn)
    }

    fn write(&mut self, path: &str, text: &str, turn: &mut Turn) -> Result<(), Halt> {
        let path = self.workspace.join(path);
        let input = json!({"file_path": path, "content": text});
        let tool = self.open_tool("Write", &input, turn)?;
        note_numbers(&path, text, turn);
        let done = make_folder(&path).and_then(|()| std::fs::write(&path, text));
        self.close_file(&tool, &path, done.map_err(|error| error.to_string()), turn)
    }

    fn png(&mut self, path: &str, turn: &mut Turn) -> Result<(), Halt> {
        let path = self.workspace.join(path);
        let input = json!({"file_path": path, "content": "(a picture)"});
        let tool = self.open_tool("Write", &input, turn)?;
        let done = make_folder(&path)
            .map_err(|error| error.to_string())
            .and_then(|()| picture::save(&turn.numbers, &path).map_err(|error| error.to_string()));
        self.close_file(&tool, &path, done, turn)
    }

    fn close_file(
        &mut self,
        tool: &str,
        path: &Path,
        done: Result<(), String>,
        turn: &mut Turn,
    ) -> Result<(), Halt> {
        match done {
            Ok(()) => self.close_tool(tool, &format!("Wrote {}.", path.display()), false, turn),
            Err(error) => self.close_tool(
                tool,
                &format!("cannot write {}: {error}", path.display()),
                true,
                turn,
            ),
        }
    }

    fn read(&mut self, path: &str, turn: &mut Turn) -> Result<(), Halt> {
        let path = self.workspace.join(path);
        let tool = self.open_tool("Read", &json!({"file_path": path}), turn)?;
        match std::fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                note_numbers(&path, &text, turn);
                let shown: String = text.chars().take(SHOWN).collect();
                self.close_tool(&tool, &shown, false, turn)
            }
            Err(error) => self.close_tool(
                &tool,
                &format!("cannot read {}: {error}", path.display()),
                true,
                turn,
            ),
        }
    }

    fn tasks(&mut self, tasks: &[String], turn: &mut Turn) -> Result<(), Halt> {
        for (at, task) in tasks.iter().enumerate() {
            let input = json!({"subject": task, "description": task});
            let tool = self.open_tool("TaskCreate", &input, turn)?;
            self.close_tool(
                &tool,
                &format!("Task #{} created successfully: {task}", at + 1),
                false,
                turn,
            )?;
        }
        for at in 1..=tasks.len() {
            for status in ["in_progress", "completed"] {
                let input = json!({"taskId": at.to_string(), "status": status});
                let tool = self.open_tool("TaskUpdate", &input, turn)?;
                self.close_tool(&tool, &format!("Updated task #{at} status"), false, turn)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, question: &str, options: &[String], turn: &mut Turn) -> Result<(), Halt> {
        let options: Vec<Value> = options
            .iter()
            .map(|option| json!({"label": option, "description": option}))
            .collect();
        let header: String = question.chars().take(12).collect();
        let input = json!({"questions": [
            {"question": question, "header": header, "multiSelect": false, "options": options}]});
        let tool = self.open_tool(ASK_TOOL, &input, turn)?;
        match self.may(&tool, ASK_TOOL, &input, turn)? {
            Ok(updated) => {
                let chosen = &updated["answers"][question];
                let chosen = chosen
                    .as_str()
                    .map_or_else(|| chosen.to_string(), str::to_owned);
                self.close_tool(&tool, &format!("{question:?}={chosen:?}"), false, turn)?;
                self.say(&format!("You chose: {chosen}"), turn)
            }
            Err(why) => self.close_tool(&tool, &why, true, turn),
        }
    }

    fn ask_permission(&mut self, name: &str, turn: &mut Turn) -> Result<(), Halt> {
        let input = json!({"description": "scripted"});
        let tool = self.open_tool(name, &input, turn)?;
        match self.may(&tool, name, &input, turn)? {
            Ok(_) => self.close_tool(&tool, "It was allowed.", false, turn),
            Err(why) => self.close_tool(&tool, &why, true, turn),
        }
    }

    /// Asks whether a tool may be used, where asking is possible: the input to use, or why not.
    fn may(
        &mut self,
        tool: &str,
        name: &str,
        input: &Value,
        turn: &mut Turn,
    ) -> Result<Result<Value, String>, Halt> {
        let answer = if self.given.asks {
            let request = self.stream.can_use_tool(tool, name, input)?;
            self.inbox.answer(&request)?
        } else {
            None
        };
        let answer = answer.unwrap_or(Value::Null);
        if answer["behavior"] == "allow" {
            return Ok(Ok(answer["updatedInput"].clone()));
        }
        turn.denied
            .push(json!({"tool_name": name, "tool_use_id": tool, "tool_input": input}));
        let why = answer["message"].as_str();
        Ok(Err(why
            .unwrap_or("This is not allowed, and nobody can be asked.")
            .to_owned()))
    }

    fn wait_for(&mut self, file: &str) -> Result<(), Halt> {
        let file = self.workspace.join(file);
        while !file.exists() {
            self.inbox.wait(LOOK)?;
        }
        Ok(())
    }

    fn finish(&mut self, turn: &Turn) -> Result<(), Halt> {
        let over = turn.calls > self.given.max_turns && turn.error.is_none();
        let ending = Ending {
            subtype: if over { "error_max_turns" } else { "success" },
            is_error: over || turn.error.is_some(),
            terminal_reason: Some(if over { "max_turns" } else { "completed" }),
            stop_reason: Some(if turn.error.is_some() {
                "stop_sequence"
            } else {
                "end_turn"
            }),
            text: turn.error.as_ref().unwrap_or(&turn.answer),
            errors: if over {
                vec![format!(
                    "Reached maximum number of turns ({})",
                    self.given.max_turns
                )]
            } else {
                Vec::new()
            },
            ..self.ending(turn)
        };
        self.end(&ending, turn)
    }

    fn abort(&mut self, turn: &mut Turn) -> Result<(), Halt> {
        for request in self.inbox.controls() {
            self.stream.control_response(&request)?;
        }
        let reason = if turn.open_tool.is_some() {
            "aborted_tools"
        } else {
            "aborted_streaming"
        };
        if let Some(tool) = turn.open_tool.take() {
            self.close_tool(&tool, "The tool was interrupted.", true, turn)?;
        }
        self.stream.interrupted()?;
        let ending = Ending {
            terminal_reason: Some(reason),
            ..self.ending(turn)
        };
        self.end(&ending, turn)
    }

    /// What every ending of a turn says.
    fn ending<'a>(&self, turn: &'a Turn) -> Ending<'a> {
        Ending {
            denied: &turn.denied,
            turns: turn.results + 1,
            milliseconds: u64::try_from(turn.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            cost: self.cost,
            ..Ending::failed(vec!["the turn was interrupted".to_owned()])
        }
    }

    fn end(&mut self, ending: &Ending<'_>, turn: &Turn) -> Result<(), Halt> {
        self.failed = ending.is_error;
        self.write_down(turn)?;
        Ok(self.stream.result(ending)?)
    }

    /// Adds the turn to the tally: one line, written at once, so that agents running side by side do not mix theirs.
    fn write_down(&self, turn: &Turn) -> Result<(), Halt> {
        let Some(tally) = &self.tally else {
            return Ok(());
        };
        let line = json!({
            "session": self.given.session,
            "text": format!("{:016x}", fingerprint(&turn.prompt)),
            "cost": self.cost.less(turn.cost_before).0,
        });
        let mut file = OpenOptions::new().append(true).create(true).open(tally)?;
        Ok(file.write_all(format!("{line}\n").as_bytes())?)
    }
}

fn make_folder(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

fn note_numbers(path: &Path, text: &str, turn: &mut Turn) {
    let numbers = picture::numbers(text);
    if path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("csv"))
        && !numbers.is_empty()
    {
        turn.numbers = numbers;
    }
}

/// Returns a text of that many characters whose lines are numbered, so that a missing piece is seen.
fn long(length: usize) -> String {
    let lines = (1..).map(|number| format!("Line {number} of a long answer.\n"));
    let mut text = String::with_capacity(length + 40);
    for line in lines {
        if text.len() >= length {
            break;
        }
        text.push_str(&line);
    }
    text.truncate(length);
    text
}

/// FNV-1a, 64 bits: the same text has the same number in every build.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
