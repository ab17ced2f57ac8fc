//! The one message that shows a running turn, and the receipt that it shrinks to.

use std::time::Duration;

use crate::domain::time::Moment;
use crate::turn::end::End;
use crate::turn::event::{Stop, Trouble};
use crate::turn::machine::Turn;
use crate::turn::state::State;
use crate::turn::work::{Step, Task, TaskState};

use super::page::LIMIT;
use super::plain::{cut, cut_front, escape, one_line};
use super::secrets::scrub;
use super::step::label;
use super::units::{counted, duration};

/// Steps that are shown, those at work included.
const STEPS: usize = 6;
/// Tasks that are shown.
const TASKS: usize = 8;
/// Code points of one task.
const TASK: usize = 80;
/// Code points of the agent's newest words.
const WORDS: usize = 300;
/// Code points of a model's or project's name.
const NAME: usize = 40;

/// Why a turn may do less than its author.
const SHIP_WITHHELD: &str = "at chat: not everybody who spoke or was quoted here holds ship";

/// What a turn without a place waits for.
const NO_PLACE: &str =
    "As many turns run as may at once. This one starts by itself when one of them ends.";

/// Returns the live message of a running turn: at most 2000 code points, whole seconds, changing only where people see it.
pub fn live(turn: &Turn, now: Moment) -> String {
    let mut lines = vec![header(turn, now)];
    lines.extend(notes(turn, now));
    lines.extend(steps(turn, now));
    lines.extend(tasks(turn));
    lines.extend(newest_words(turn));
    let mut text = String::new();
    for line in lines {
        if text.chars().count() + line.chars().count() < LIMIT {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&line);
        }
    }
    text
}

fn header(turn: &Turn, now: Moment) -> String {
    let doing = match (turn.state(), turn.stopping()) {
        (_, Some(_)) => "Stopping…",
        (State::Admitting { waits: true }, None) => return waiting(turn),
        (State::Admitting { waits: false } | State::Starting { .. }, None) => "Starting",
        (State::Running, None) if turn.work().is_writing() => "Writing",
        (State::Running, None) if turn.work().is_thinking() => "Thinking",
        (State::Running | State::Stopping { .. }, None) => "Working",
        (State::Ending { .. } | State::Closing { .. }, None) => "Finishing",
    };
    let mut parts = vec![format!("⏳ {doing}"), project(turn), model(turn)];
    let elapsed = turn.elapsed(now);
    if elapsed >= Duration::from_secs(1) {
        parts.push(duration(elapsed));
    }
    parts.join(" · ")
}

/// Without a clock: what waits has not begun.
fn waiting(turn: &Turn) -> String {
    format!(
        "⏳ Waiting for a free place · {} · {}\n-# {NO_PLACE}",
        project(turn),
        model(turn)
    )
}

fn project(turn: &Turn) -> String {
    cut(turn.facts().project.as_str(), NAME)
}

fn model(turn: &Turn) -> String {
    let asked = &turn.facts().model;
    escape(&cut(
        &one_line(turn.work().other_model().unwrap_or(asked)),
        NAME,
    ))
}

fn notes(turn: &Turn, now: Moment) -> Vec<String> {
    let mut notes = Vec::new();
    if turn.ship_withheld() {
        notes.push(format!("-# {SHIP_WITHHELD}"));
    }
    if let Some(since) = turn.away_since() {
        notes.push(format!(
            "-# Waiting for the sandbox · {}",
            duration(now.since(since))
        ));
    }
    if let Some(retrying) = turn.work().retrying() {
        let why = match retrying.status {
            Some(429) => "takes no more requests for now",
            Some(529) => "is overloaded",
            Some(_) => "answered with an error",
            None => "cannot be reached",
        };
        let wait = match duration(retrying.until.since(now)) {
            wait if retrying.until.since(now) >= Duration::from_secs(1) => format!(" in {wait}"),
            _ => String::new(),
        };
        notes.push(format!(
            "-# The provider {why}; trying again{wait} ({} of {})",
            retrying.attempt, retrying.of
        ));
    }
    notes
}

fn steps(turn: &Turn, now: Moment) -> Vec<String> {
    let (shown, hidden) = chosen_steps(turn);
    let mut lines = Vec::new();
    if hidden > 0 {
        let hidden = counted(hidden, "earlier step", "earlier steps");
        lines.push(format!("-# … {hidden}"));
    }
    lines.extend(shown.into_iter().map(|step| step_line(turn, step, now)));
    lines
}

/// Returns the steps that are shown, a sub-agent's behind its own, and how many are not. Steps at work come before all
/// others, then the newest.
fn chosen_steps(turn: &Turn) -> (Vec<&Step>, usize) {
    let all: Vec<&Step> = turn.work().shown_steps().collect();
    let open = all.iter().filter(|step| step.is_open()).count();
    let mut room_for_open = open.min(STEPS);
    let mut room_for_done = STEPS - room_for_open;
    let mut chosen: Vec<(usize, &Step)> = Vec::new();
    for (at, step) in all.iter().enumerate().rev() {
        let room = if step.is_open() {
            &mut room_for_open
        } else {
            &mut room_for_done
        };
        if *room > 0 {
            *room -= 1;
            chosen.push((at, step));
        }
    }
    let place = |(at, step): &(usize, &Step)| {
        let parent = step.parent.as_ref();
        let parent = parent.and_then(|id| all.iter().position(|other| other.id == *id));
        (parent.unwrap_or(*at), *at)
    };
    chosen.sort_by_key(place);
    let hidden = all.len() - chosen.len();
    (chosen.into_iter().map(|(_, step)| step).collect(), hidden)
}

fn step_line(turn: &Turn, step: &Step, now: Moment) -> String {
    let nested = if step.parent.is_some() { "↳ " } else { "" };
    let label = label(step, &turn.facts().secrets.0);
    match &step.end {
        None => format!("{nested}⏳ {label} · {}", duration(now.since(step.since))),
        Some(end) if end.failed => format!("{nested}✗ {label}"),
        Some(_) => format!("{nested}✓ {label}"),
    }
}

fn tasks(turn: &Turn) -> Vec<String> {
    let all = turn.work().tasks();
    // What is done first goes first where not all can be shown.
    let done = all
        .iter()
        .take_while(|task| task.state == TaskState::Done)
        .count();
    let skipped = all.len().saturating_sub(TASKS).min(done);
    let mut lines: Vec<String> = Vec::new();
    if skipped > 0 {
        lines.push(format!("-# ☑ {} done", counted(skipped, "task", "tasks")));
    }
    let rest = &all[skipped..];
    lines.extend(rest.iter().take(TASKS).map(|task| task_line(turn, task)));
    if rest.len() > TASKS {
        lines.push(format!(
            "-# … {} more",
            counted(rest.len() - TASKS, "task", "tasks")
        ));
    }
    lines
}

fn task_line(turn: &Turn, task: &Task) -> String {
    let subject = scrub(&task.subject, &turn.facts().secrets.0);
    let subject = escape(&cut(&one_line(&subject), TASK));
    match task.state {
        TaskState::Pending => format!("☐ {subject}"),
        TaskState::Active => format!("▸ {subject}"),
        TaskState::Done => format!("☑ {subject}"),
    }
}

fn newest_words(turn: &Turn) -> Option<String> {
    let words = one_line(&scrub(turn.work().newest_text(), &turn.facts().secrets.0));
    (!words.is_empty()).then(|| format!("> {}", escape(&cut_front(&words, WORDS))))
}

/// Returns the one line that is left of the live message once the turn is over.
pub fn receipt(turn: &Turn) -> String {
    let mut parts = vec![mark(turn)];
    let count = turn.work().shown_steps().count();
    if count > 0 || turn.end() == Some(&End::Answered) {
        parts.push(counted(count, "step", "steps"));
    }
    if turn.has_run() {
        parts.push(duration(turn.elapsed(turn.facts().at)));
    }
    let (cost, estimated) = turn.cost();
    if turn.has_run() || cost.0 > 0 {
        let about = if estimated { "≈ " } else { "" };
        parts.push(format!("{about}{cost}"));
    }
    parts.push(model(turn));
    if turn.ship_withheld() {
        parts.push(SHIP_WITHHELD.to_owned());
    }
    // "✓ 6 steps", but "■ stopped · 6 steps".
    let line = parts.join(" · ");
    format!("-# {}", line.replacen("✓ · ", "✓ ", 1))
}

fn mark(turn: &Turn) -> String {
    let text = match turn.end() {
        None | Some(End::Answered) => "✓",
        Some(End::Refused(_)) => "✗ refused",
        Some(End::NotStarted(Trouble::Attachment { .. })) => "✗ not started: a file is missing",
        Some(End::NotStarted(_)) => "✗ not started",
        Some(End::Stopped(Stop::By(member))) => return format!("■ stopped by <@{member}>"),
        Some(End::Stopped(Stop::Limit(hold))) => {
            return format!("■ stopped: limit of {hold} reached");
        }
        Some(End::Stopped(why)) => stop_mark(*why),
        Some(End::Early { .. }) => "✗ ended early",
        Some(End::Cut) => "✗ broke off",
        Some(End::Failed(_)) => "✗ failed",
        Some(End::SandboxLost) => "✗ the sandbox is away",
    };
    text.to_owned()
}

fn stop_mark(why: Stop) -> &'static str {
    match why {
        Stop::By(_) => "■ stopped",
        Stop::TimeUp => "■ stopped: time is up",
        Stop::Silent => "■ stopped: silent for too long",
        Stop::Limit(_) => "■ stopped: the money is used up",
        Stop::ThreadGone => "■ stopped: the thread is gone",
        Stop::Revoked => "■ stopped: access has ended",
        Stop::WrongMode => "■ stopped: wrong permissions",
        Stop::Tampered => "■ stopped: the record was changed",
    }
}

#[cfg(test)]
pub(super) mod tests;
