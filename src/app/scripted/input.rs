//! What reaches the scripted agent while it runs: lines on standard input, and the interrupt signal.

use std::collections::{HashMap, VecDeque};
use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Why a turn, or the whole program, does not go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// An interrupt was asked for on the stream: the turn ends, the program goes on.
    Interrupted,
    /// SIGINT: the turn ends, and the program after it.
    Signalled,
    /// The program ends at once with this code.
    Exit(u8),
}

impl From<std::io::Error> for Halt {
    /// Nobody reads the stream any more.
    fn from(_: std::io::Error) -> Halt {
        Halt::Exit(1)
    }
}

/// A message of people.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The id it was fed with.
    pub(super) id: Option<String>,
    /// Its words.
    pub(super) text: String,
}

/// One line of input, or what else can come.
#[derive(Debug, PartialEq)]
enum News {
    Said(Said),
    Interrupt(String),
    Control(String),
    Answer { request: String, response: Value },
    Other,
    Unreadable(String),
    Closed,
    Signal,
}

/// What has come and was not dealt with yet.
pub(super) struct Inbox {
    news: Receiver<News>,
    waiting: VecDeque<Said>,
    answers: HashMap<String, Value>,
    controls: Vec<String>,
    closed: bool,
    halt: Option<Halt>,
    /// Interrupts and SIGINT change nothing.
    pub(super) stubborn: bool,
}

impl Inbox {
    /// Begins to listen to standard input and for SIGINT.
    pub(super) fn open() -> Inbox {
        let (sender, news) = channel();
        let signals = sender.clone();
        std::thread::spawn(move || read_lines(std::io::stdin().lock(), &sender));
        std::thread::spawn(move || wait_for_signals(&signals));
        Inbox::of(news)
    }

    fn of(news: Receiver<News>) -> Inbox {
        Inbox {
            news,
            waiting: VecDeque::new(),
            answers: HashMap::new(),
            controls: Vec::new(),
            closed: false,
            halt: None,
            stubborn: false,
        }
    }

    /// Returns the next message of people; `None`: the input is over.
    pub(super) fn next(&mut self) -> Result<Option<Said>, Halt> {
        loop {
            if let Some(said) = self.waiting.pop_front() {
                return Ok(Some(said));
            }
            if self.closed {
                return Ok(None);
            }
            match self.wait(Duration::from_secs(60)) {
                // Nothing runs that an interrupt could end.
                Ok(()) | Err(Halt::Interrupted) => {}
                Err(halt) => return Err(halt),
            }
        }
    }

    /// Returns a message that came while the turn runs.
    pub(super) fn steer(&mut self) -> Option<Said> {
        self.waiting.pop_front()
    }

    /// Returns control requests that wait for their answer.
    pub(super) fn controls(&mut self) -> Vec<String> {
        std::mem::take(&mut self.controls)
    }

    /// Waits for the answer to a question; `None`: the input ended without one.
    pub(super) fn answer(&mut self, request: &str) -> Result<Option<Value>, Halt> {
        loop {
            if let Some(answer) = self.answers.remove(request) {
                return Ok(Some(answer));
            }
            if self.closed {
                return Ok(None);
            }
            self.wait(Duration::from_secs(60))?;
        }
    }

    /// Lets this much time pass, unless something ends the turn.
    pub(super) fn pause(&mut self, time: Duration) -> Result<(), Halt> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            self.wait(left)?;
            if Instant::now() >= end {
                return Ok(());
            }
        }
    }

    /// Takes in what has come; waits at most this long for something.
    pub(super) fn wait(&mut self, time: Duration) -> Result<(), Halt> {
        match self.news.recv_timeout(time) {
            Ok(news) => self.take(news),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                self.closed = true;
                std::thread::sleep(time);
            }
        }
        while let Ok(news) = self.news.try_recv() {
            self.take(news);
        }
        match self.halt.take() {
            Some(Halt::Interrupted | Halt::Signalled) if self.stubborn => Ok(()),
            Some(halt) => Err(halt),
            None => Ok(()),
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Said(said) => self.waiting.push_back(said),
            News::Interrupt(id) => {
                self.controls.push(id);
                self.halt.get_or_insert(Halt::Interrupted);
            }
            News::Control(id) => self.controls.push(id),
            News::Answer { request, response } => {
                self.answers.insert(request, response);
            }
            News::Other => {}
            News::Unreadable(line) => {
                eprintln!("Error parsing streaming input line: {line}");
                self.halt = Some(Halt::Exit(1));
            }
            News::Closed => self.closed = true,
            News::Signal => self.halt = Some(Halt::Signalled),
        }
    }
}

fn read_lines(input: impl BufRead, news: &Sender<News>) {
    for line in input.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if !line.trim().is_empty() && news.send(understand(&line)).is_err() {
            return;
        }
    }
    // The receiver is gone only when the program ends.
    news.send(News::Closed).ok();
}

fn understand(line: &str) -> News {
    let Ok(value) = serde_json::from_str::<Value>(line) else {
        return News::Unreadable(line.chars().take(200).collect());
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match value["type"].as_str() {
        Some("user") => News::Said(Said {
            id: text(&value["uuid"]),
            text: text(&value["message"]["content"]).unwrap_or_default(),
        }),
        Some("control_request") => {
            let id = text(&value["request_id"]).unwrap_or_default();
            if value["request"]["subtype"] == "interrupt" {
                News::Interrupt(id)
            } else {
                News::Control(id)
            }
        }
        Some("control_response") => News::Answer {
            request: text(&value["response"]["request_id"]).unwrap_or_default(),
            response: value["response"]["response"].clone(),
        },
        _ => News::Other,
    }
}

/// Waits for SIGINT the way that leaves the signal mask alone, which commands would inherit.
fn wait_for_signals(news: &Sender<News>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let kind = tokio::signal::unix::SignalKind::interrupt();
        let Ok(mut signal) = tokio::signal::unix::signal(kind) else {
            return;
        };
        while signal.recv().await.is_some() && news.send(News::Signal).is_ok() {}
    });
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::agent::prompt::{allow_line, deny_line, interrupt_line, user_line};

    /// An inbox into which these lines came, and then the end.
    pub(in super::super) fn inbox(lines: &[String]) -> Inbox {
        reading(std::io::Cursor::new(lines.join("\n").into_bytes()))
    }

    /// An inbox that reads from something else than standard input.
    pub(in super::super) fn reading(input: impl BufRead + Send + 'static) -> Inbox {
        let (sender, news) = channel();
        std::thread::spawn(move || read_lines(input, &sender));
        Inbox::of(news)
    }

    #[test]
    fn the_bots_lines_are_understood() {
        let mut inbox = inbox(&[
            user_line("9-1", "hello"),
            allow_line("r1", &serde_json::json!({"a": 1})),
            deny_line("r2", "no"),
        ]);
        assert_eq!(inbox.answer("r1").unwrap().unwrap()["updatedInput"]["a"], 1);
        assert_eq!(inbox.answer("r2").unwrap().unwrap()["message"], "no");
        let said = inbox.next().unwrap().unwrap();
        assert_eq!(
            (said.id.as_deref(), said.text.as_str()),
            (Some("9-1"), "hello")
        );
        assert_eq!(inbox.next(), Ok(None));
    }

    #[test]
    fn an_interrupt_ends_a_pause_and_waits_for_its_answer() {
        let mut inbox = inbox(&[interrupt_line("stop")]);
        assert_eq!(inbox.pause(Duration::from_secs(60)), Err(Halt::Interrupted));
        assert_eq!(inbox.controls(), ["stop"]);
    }

    #[test]
    fn one_unreadable_line_ends_the_program() {
        assert_eq!(inbox(&["{nonsense".to_owned()]).next(), Err(Halt::Exit(1)));
    }
}
