//! What the agent has done in a turn so far: steps, tasks, words. A record to look at; it decides nothing.

use serde_json::Value;

use crate::agent::event::{Event, Outcome, Tokens, ToolCall, ToolId, Used};
use crate::domain::money::Usd;
use crate::domain::time::Moment;

/// Code points that are kept of one text inside a tool's input.
const INPUT_TEXT: usize = 8 * 1024;
/// Bytes that are kept of a text that is still being written.
const WRITING: usize = 64 * 1024;

/// One thing that the agent does in a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The agent's id of the call.
    pub id: ToolId,
    /// The tool.
    pub tool: String,
    /// Its input; texts in it are bounded to 8192 code points each.
    pub input: Value,
    /// The step of the sub-agent that it belongs to.
    pub parent: Option<ToolId>,
    /// When it was seen to begin.
    pub since: Moment,
    /// How it ended; `None` while it is open.
    pub end: Option<StepEnd>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepEnd {
    /// When.
    pub at: Moment,
    /// Whether it failed or was denied.
    pub failed: bool,
    /// What it gave, as bounded by the decoder.
    pub output: String,
}

impl Step {
    /// Returns whether it only keeps the task list, which is shown as such and not as a step.
    pub fn is_bookkeeping(&self) -> bool {
        matches!(
            self.tool.as_str(),
            "TaskCreate" | "TaskUpdate" | "TaskList" | "TaskGet" | "TodoWrite"
        )
    }

    /// Returns whether it has not ended yet.
    pub fn is_open(&self) -> bool {
        self.end.is_none()
    }
}

/// How far a task of the agent's list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Not begun.
    Pending,
    /// Being worked on.
    Active,
    /// Finished.
    Done,
}

/// One line of the agent's task list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The agent's number of it.
    pub id: String,
    /// What is to be done.
    pub subject: String,
    /// How far it is.
    pub state: TaskState,
}

/// The provider did not answer as it should, and the agent waits to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retrying {
    /// Which attempt failed, from 1.
    pub attempt: u32,
    /// How many there will be.
    pub of: u32,
    /// When the next begins.
    pub until: Moment,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
}

/// One answer of the provider and what it used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The provider's id of it, where told.
    id: Option<String>,
    /// The sub-agent's call that it belongs to.
    parent: Option<ToolId>,
    /// The full id of the model, where told.
    pub model: Option<String>,
    /// What it used.
    pub tokens: Tokens,
}

/// Everything that the agent's stream has told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    steps: Vec<Step>,
    tasks: Vec<Task>,
    said: String,
    writing: String,
    retrying: Option<Retrying>,
    thinking: bool,
    model: Option<String>,
    result: Option<Outcome>,
    /// The provider's answers whose cost no result has told.
    answers: Vec<Answer>,
    /// Whether the model said anything whose cost no result has told.
    answered: bool,
}

impl Work {
    /// Returns all steps in the order of their beginning.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the steps that people count: all but the keeping of the task list.
    pub fn shown_steps(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps.iter().filter(|step| !step.is_bookkeeping())
    }

    /// Returns whether any tool is at work.
    pub fn has_open_step(&self) -> bool {
        self.steps.iter().any(Step::is_open)
    }

    /// Returns the agent's task list.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Returns the newest words of the main conversation, finished or not; empty if there are none.
    pub fn newest_text(&self) -> &str {
        if self.writing.trim().is_empty() {
            &self.said
        } else {
            &self.writing
        }
    }

    /// Returns whether a text is being written right now.
    pub fn is_writing(&self) -> bool {
        !self.writing.trim().is_empty()
    }

    /// Returns whether the last thing heard was thinking.
    pub fn is_thinking(&self) -> bool {
        self.thinking
    }

    /// Returns what the agent waits for before it asks the provider again.
    pub fn retrying(&self) -> Option<Retrying> {
        self.retrying
    }

    /// Returns the model that answers in place of the one asked for.
    pub fn other_model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns the last result, which is the one that counts.
    pub fn result(&self) -> Option<&Outcome> {
        self.result.as_ref()
    }

    /// Returns the provider's answers that used something whose cost no result has told.
    pub fn unpriced(&self) -> impl Iterator<Item = &Answer> {
        let used = |answer: &&Answer| !answer.tokens.is_none();
        self.answers.iter().filter(used)
    }

    /// Returns whether the model did something whose cost no result has told.
    pub fn owes(&self) -> bool {
        self.answered || self.unpriced().next().is_some()
    }

    /// Takes down what the stream said. Returns whether people could see a difference.
    pub(super) fn note(&mut self, event: &Event, now: Moment) -> bool {
        self.answered |= matches!(
            event,
            Event::Text { .. } | Event::TextDelta(_) | Event::Thinking | Event::ToolStarted(_)
        );
        match event {
            Event::Text { text, parent: None } => self.say(text),
            Event::TextDelta(piece) => self.write(piece),
            Event::Thinking => self.progress(true),
            Event::ToolStarted(call) => self.begin_step(call, now),
            Event::ToolEnded { id, failed, output } => self.end_step(id, *failed, output, now),
            Event::Retry {
                attempt,
                of,
                wait,
                status,
            } => {
                self.retrying = Some(Retrying {
                    attempt: *attempt,
                    of: *of,
                    until: now + *wait,
                    status: *status,
                });
            }
            Event::ModelChanged { to } => self.model = Some(to.clone()),
            Event::Result(outcome) => {
                self.progress(false);
                self.settle(outcome.total_cost);
                self.result = Some(outcome.clone());
            }
            Event::Used(used) => {
                self.count(used);
                return false;
            }
            Event::Init(_)
            | Event::Text { .. }
            | Event::Echo { .. }
            | Event::Permission(_)
            | Event::Compacted
            | Event::Unknown { .. }
            | Event::Unreadable
            | Event::TooLong { .. } => return false,
        }
        true
    }

    /// Takes note of what a result says that everything up to it has cost. A total that did not grow by answers that used
    /// something does not tell their cost: the CLI says so of one that was interrupted (measured).
    fn settle(&mut self, total: Usd) {
        let before = self.result.as_ref().map(|result| result.total_cost);
        if total > before.unwrap_or_default() || self.unpriced().next().is_none() {
            self.answers.clear();
            self.answered = false;
        }
    }

    fn count(&mut self, used: &Used) {
        let is_same = |answer: &&mut Answer| match &used.answer {
            Some(_) => answer.id == used.answer,
            None => answer.parent == used.parent,
        };
        match self.answers.iter_mut().rev().find(is_same) {
            Some(answer) => {
                answer.tokens = answer.tokens.max(used.tokens);
                answer.model = answer.model.take().or_else(|| used.model.clone());
            }
            None => self.answers.push(Answer {
                id: used.answer.clone(),
                parent: used.parent.clone(),
                model: used.model.clone(),
                tokens: used.tokens,
            }),
        }
    }

    fn progress(&mut self, thinking: bool) {
        self.retrying = None;
        self.thinking = thinking;
    }

    fn say(&mut self, text: &str) {
        self.progress(false);
        self.writing.clear();
        if !text.trim().is_empty() {
            self.said = text.to_owned();
        }
    }

    fn write(&mut self, piece: &str) {
        self.progress(false);
        if self.writing.len() + piece.len() <= WRITING {
            self.writing.push_str(piece);
        }
    }

    fn begin_step(&mut self, call: &ToolCall, now: Moment) {
        self.progress(false);
        if self.steps.iter().all(|step| step.id != call.id) {
            self.steps.push(Step {
                id: call.id.clone(),
                tool: call.name.clone(),
                input: bounded(&call.input),
                parent: call.parent.clone(),
                since: now,
                end: None,
            });
        }
    }

    fn end_step(&mut self, id: &ToolId, failed: bool, output: &str, now: Moment) {
        let Some(step) = self.steps.iter_mut().find(|step| step.id == *id) else {
            return;
        };
        step.end = Some(StepEnd {
            at: now,
            failed,
            output: output.to_owned(),
        });
        if !failed && step.parent.is_none() {
            let (tool, input) = (step.tool.clone(), step.input.clone());
            self.keep_tasks(&tool, &input, output);
        }
    }

    fn keep_tasks(&mut self, tool: &str, input: &Value, output: &str) {
        match tool {
            "TaskCreate" => {
                let subject = text_of(input, "subject").unwrap_or_default().to_owned();
                // "Task #1 created successfully: …" (measured, 2.1.197).
                let id =
                    number_after_hash(output).unwrap_or_else(|| (self.tasks.len() + 1).to_string());
                self.tasks.push(Task {
                    id,
                    subject,
                    state: TaskState::Pending,
                });
            }
            "TaskUpdate" => self.update_task(input),
            "TodoWrite" => self.tasks = todo_list(input),
            _ => {}
        }
    }

    fn update_task(&mut self, input: &Value) {
        let Some(id) = text_of(input, "taskId") else {
            return;
        };
        if text_of(input, "status") == Some("deleted") {
            self.tasks.retain(|task| task.id != id);
        }
        if let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) {
            if let Some(subject) = text_of(input, "subject") {
                task.subject = subject.to_owned();
            }
            if let Some(state) = text_of(input, "status").and_then(task_state) {
                task.state = state;
            }
        }
    }
}

fn todo_list(input: &Value) -> Vec<Task> {
    let todos = input.get("todos").and_then(Value::as_array);
    todos
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(index, todo)| Task {
            id: (index + 1).to_string(),
            subject: text_of(todo, "content").unwrap_or_default().to_owned(),
            state: text_of(todo, "status")
                .and_then(task_state)
                .unwrap_or(TaskState::Pending),
        })
        .collect()
}

fn task_state(status: &str) -> Option<TaskState> {
    match status {
        "pending" => Some(TaskState::Pending),
        "in_progress" => Some(TaskState::Active),
        "completed" => Some(TaskState::Done),
        _ => None,
    }
}

fn text_of<'a>(input: &'a Value, key: &str) -> Option<&'a str> {
    input.get(key)?.as_str()
}

fn number_after_hash(text: &str) -> Option<String> {
    let rest = text.split_once('#')?.1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then_some(digits)
}

/// Returns the input with every text in it cut to [`INPUT_TEXT`], so that a large file written does not stay in memory.
fn bounded(input: &Value) -> Value {
    match input {
        Value::String(text) if text.chars().nth(INPUT_TEXT).is_some() => {
            let kept: String = text.chars().take(INPUT_TEXT).collect();
            Value::String(format!("{kept}…"))
        }
        Value::Array(items) => Value::Array(items.iter().map(bounded).collect()),
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(key, value)| (key.clone(), bounded(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Moment = Moment(1_000);

    fn run(work: &mut Work, id: &str, name: &str, input: Value, output: &str) {
        work.note(&start(id, name, input), NOW);
        work.note(&end(id, false, output), NOW);
    }

    fn start(id: &str, name: &str, input: Value) -> Event {
        Event::ToolStarted(ToolCall {
            id: ToolId(id.into()),
            name: name.into(),
            input,
            parent: None,
        })
    }

    fn end(id: &str, failed: bool, output: &str) -> Event {
        Event::ToolEnded {
            id: ToolId(id.into()),
            failed,
            output: output.into(),
        }
    }

    fn list(work: &Work) -> Vec<(&str, TaskState)> {
        work.tasks()
            .iter()
            .map(|task| (task.subject.as_str(), task.state))
            .collect()
    }

    #[test]
    fn the_task_list_follows_the_agents_calls() {
        let mut work = Work::default();
        let made = "Task #1 created successfully: Plot";
        run(
            &mut work,
            "a",
            "TaskCreate",
            json!({"subject": "Plot"}),
            made,
        );
        let made = "Task #7 created successfully: Report";
        run(
            &mut work,
            "b",
            "TaskCreate",
            json!({"subject": "Report"}),
            made,
        );
        let update = json!({"taskId": "7", "status": "in_progress"});
        run(&mut work, "c", "TaskUpdate", update, "");
        let update = json!({"taskId": "1", "status": "completed", "subject": "Plot it"});
        run(&mut work, "d", "TaskUpdate", update, "");
        assert_eq!(
            list(&work),
            [("Plot it", TaskState::Done), ("Report", TaskState::Active)]
        );
        let update = json!({"taskId": "1", "status": "deleted"});
        run(&mut work, "e", "TaskUpdate", update, "");
        assert_eq!(list(&work), [("Report", TaskState::Active)]);
        assert_eq!(work.shown_steps().count(), 0);
    }

    #[test]
    fn a_todo_list_replaces_the_tasks() {
        let mut work = Work::default();
        let todos =
            json!({"todos": [{"content": "A", "status": "completed"}, {"content": "B"}, 5]});
        run(&mut work, "a", "TodoWrite", todos, "");
        assert_eq!(
            list(&work),
            [
                ("A", TaskState::Done),
                ("B", TaskState::Pending),
                ("", TaskState::Pending)
            ]
        );
    }

    #[test]
    fn a_failed_call_makes_no_task() {
        let mut work = Work::default();
        work.note(&start("a", "TaskCreate", json!({"subject": "Plot"})), NOW);
        work.note(&end("a", true, "no"), NOW);
        assert_eq!(list(&work), []);
    }

    #[test]
    fn steps_end_in_any_order_and_unknown_ends_change_nothing() {
        let mut work = Work::default();
        work.note(&start("a", "Bash", json!({})), NOW);
        work.note(&start("b", "Read", json!({})), NOW);
        work.note(&end("b", true, "missing"), Moment(2_000));
        work.note(&end("x", true, "?"), Moment(2_000));
        let failed: Vec<_> = work
            .steps()
            .iter()
            .map(|step| step.end.as_ref().map(|end| end.failed))
            .collect();
        assert_eq!(failed, [None, Some(true)]);
        assert!(work.has_open_step());
    }

    #[test]
    fn the_newest_text_is_what_is_being_written_else_what_was_said() {
        let mut work = Work::default();
        let text = |text: &str, parent| Event::Text {
            text: text.into(),
            parent,
        };
        work.note(&text("First.", None), NOW);
        work.note(&Event::TextDelta("Sec".into()), NOW);
        work.note(&Event::TextDelta("ond".into()), NOW);
        assert_eq!(work.newest_text(), "Second");
        work.note(&text("Second.", None), NOW);
        work.note(
            &text("I am a sub-agent.", Some(ToolId("agent".into()))),
            NOW,
        );
        assert_eq!(work.newest_text(), "Second.");
    }

    #[test]
    fn long_texts_in_an_input_are_cut() {
        let mut work = Work::default();
        let content = "é".repeat(INPUT_TEXT + 5);
        work.note(&start("a", "Write", json!({"content": [content]})), NOW);
        let kept = work.steps()[0].input["content"][0].as_str().unwrap();
        assert_eq!(kept.chars().count(), INPUT_TEXT + 1);
    }

    #[test]
    fn progress_ends_the_note_of_a_retry() {
        let mut work = Work::default();
        let retry = Event::Retry {
            attempt: 1,
            of: 3,
            wait: std::time::Duration::from_secs(4),
            status: Some(529),
        };
        work.note(&retry, NOW);
        assert_eq!(work.retrying().unwrap().until, Moment(5_000));
        work.note(&Event::Unreadable, NOW);
        assert!(work.retrying().is_some());
        work.note(&Event::Thinking, NOW);
        assert!(work.retrying().is_none());
    }
}
