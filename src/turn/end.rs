//! How a turn ended, told from what the stream, the exit code and standard error say.
//!
//! Measured with the real CLI, 2.1.197: errors of the provider have subtype `success`, so only `is_error` counts; a
//! connection that was cut looks like a success without stop reason.

use crate::agent::event::Outcome;
use crate::domain::grant::Refusal;
use crate::domain::ledger::LIMIT_REACHED;

use super::event::{Stop, Trouble};
use super::work::Work;

/// What a shell says of a process that was killed: 128 and the signal's number.
const SIGKILLED: i32 = 137;

/// Characters that are kept of an error's text.
const ERROR_TEXT: usize = 300;

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer.
    Answered,
    /// The gate said no at its start.
    Refused(Refusal),
    /// It never ran.
    NotStarted(Trouble),
    /// It was stopped.
    Stopped(Stop),
    /// The process ended without a result; its last words, if any, are all there is.
    Early {
        /// Its exit code, where there was one.
        exit: Option<i32>,
    },
    /// The provider's answer broke off.
    Cut,
    /// The agent reports a failure.
    Failed(Failure),
    /// The sandbox was away for longer than is waited.
    SandboxLost,
}

/// What an agent's failure was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The provider refuses the key, or there is none.
    Key,
    /// The provider's account has no credit left.
    Credit,
    /// The subscription's limit is reached; when it resets, in the provider's words.
    UsageLimit(Option<String>),
    /// The provider takes no more requests for now.
    RateLimit,
    /// The provider is overloaded.
    Overloaded,
    /// The provider cannot be reached or is faulty.
    Provider,
    /// The provider does not know the model.
    Model,
    /// The conversation has become too long.
    PromptTooLong,
    /// One request was too large, mostly for a file in it.
    TooLarge,
    /// The answer became too long.
    AnswerTooLong,
    /// The model declined.
    Declined,
    /// As many calls were made as one turn may make.
    MaxTurns,
    /// The CLI's own cost limit was reached.
    MaxBudget,
    /// The meter lets nothing more through: what was held is used up.
    LimitReached,
    /// The conversation cannot be resumed.
    SessionLost,
    /// The conversation exists already.
    SessionTaken,
    /// Somebody interrupted the process from outside.
    Interrupted,
    /// The process was killed, and not by us: mostly the system's doing where memory runs out.
    Killed,
    /// The sandbox has no room left for what the agent writes.
    Full,
    /// The provider does not accept the conversation as it stands (400), in its words, bounded: it may never again.
    Poisoned(String),
    /// Anything else, in the agent's words, bounded.
    Other(String),
}

/// Tells how a run ended that nobody stopped.
pub(super) fn of(work: &Work, exit: Option<i32>, complaint: &str) -> End {
    match work.result() {
        Some(result) if result.is_error => End::Failed(failure(result)),
        Some(result) if was_cut(result) => End::Cut,
        Some(_) => End::Answered,
        None if exit == Some(SIGKILLED) => End::Failed(Failure::Killed),
        None if has_no_room(complaint) => End::Failed(Failure::Full),
        None if work.newest_text().is_empty() && work.steps().is_empty() => {
            without_a_word(exit, complaint)
        }
        None => End::Early { exit },
    }
}

/// How Node.js and a shell say that the disk is full.
fn has_no_room(complaint: &str) -> bool {
    complaint.contains("ENOSPC") || complaint.contains("No space left on device")
}

/// A shell says 126 or 127 where the program is missing or is none; a taken session is told on standard error alone.
fn without_a_word(exit: Option<i32>, complaint: &str) -> End {
    match exit {
        Some(126 | 127) => End::NotStarted(Trouble::AgentMissing),
        _ if complaint.contains("already in use") => End::Failed(Failure::SessionTaken),
        _ if complaint.contains("No conversation found") => End::Failed(Failure::SessionLost),
        _ => End::Early { exit },
    }
}

fn was_cut(result: &Outcome) -> bool {
    result.stop_reason.is_none() && result.terminal_reason.as_deref() == Some("completed")
}

fn failure(result: &Outcome) -> Failure {
    let said = [result.text.as_str(), result.errors.join(" ").as_str()].join(" ");
    by_name(result)
        .or_else(|| by_words(&said.to_lowercase(), &said))
        .or_else(|| result.api_status.and_then(by_status))
        .unwrap_or_else(|| {
            let text: String = said.trim().chars().take(ERROR_TEXT).collect();
            match result.api_status {
                Some(400) => Failure::Poisoned(text),
                _ => Failure::Other(text),
            }
        })
}

fn by_name(result: &Outcome) -> Option<Failure> {
    match (
        result.subtype.as_str(),
        result.terminal_reason.as_deref(),
        result.stop_reason.as_deref(),
    ) {
        ("error_max_turns", _, _) => Some(Failure::MaxTurns),
        ("error_max_budget_usd", _, _) => Some(Failure::MaxBudget),
        (_, Some("prompt_too_long"), _) => Some(Failure::PromptTooLong),
        (_, Some("aborted_tools" | "aborted_streaming"), _) => Some(Failure::Interrupted),
        (_, _, Some("refusal")) => Some(Failure::Declined),
        (_, _, Some("max_tokens")) => Some(Failure::AnswerTooLong),
        _ => None,
    }
}

fn by_words(said: &str, original: &str) -> Option<Failure> {
    let has = |words: &str| said.contains(words);
    let failure = if has(LIMIT_REACHED) {
        Failure::LimitReached
    } else if has("no conversation found") || has("requires a valid session id") {
        Failure::SessionLost
    } else if has("already in use") {
        Failure::SessionTaken
    } else if has("output token maximum") {
        Failure::AnswerTooLong
    } else if has("prompt is too long") {
        Failure::PromptTooLong
    } else if has("request too large") {
        Failure::TooLarge
    } else if has("credit balance") {
        Failure::Credit
    } else if has("usage limit") || (has("hit your") && has("limit")) {
        Failure::UsageLimit(resets(original))
    } else if has("not logged in") || has("invalid api key") || has("failed to authenticate") {
        Failure::Key
    } else if has("overloaded") {
        Failure::Overloaded
    } else if has("unable to connect") {
        Failure::Provider
    } else {
        return None;
    };
    Some(failure)
}

fn by_status(status: u16) -> Option<Failure> {
    match status {
        401 | 403 => Some(Failure::Key),
        402 => Some(Failure::Credit),
        404 => Some(Failure::Model),
        413 => Some(Failure::TooLarge),
        429 => Some(Failure::RateLimit),
        529 => Some(Failure::Overloaded),
        500..=599 => Some(Failure::Provider),
        _ => None,
    }
}

/// "You've hit your session limit · resets 1:57am (UTC)" (measured).
fn resets(said: &str) -> Option<String> {
    let (_, when) = said.split_once("resets ")?;
    let when: String = when.trim().chars().take(40).collect();
    (!when.is_empty()).then_some(when)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::agent::event::Event;
    use crate::domain::money::Usd;
    use crate::domain::time::Moment;

    fn result(text: &str) -> Outcome {
        Outcome {
            is_error: true,
            subtype: "success".into(),
            terminal_reason: Some("completed".into()),
            stop_reason: Some("stop_sequence".into()),
            text: text.into(),
            errors: Vec::new(),
            api_status: None,
            total_cost: Usd::ZERO,
            turns: 1,
            duration: Duration::ZERO,
            session: None,
            denied: Vec::new(),
            origin: None,
        }
    }

    fn end(outcome: Outcome) -> End {
        let mut work = Work::default();
        work.note(&Event::Result(outcome), Moment(0));
        of(&work, Some(1), "")
    }

    #[test]
    fn every_recorded_failure_is_told_apart() {
        // Texts as recorded in tests/fixtures/stream-json.
        let cases = [
            (
                Some(401),
                "Invalid API key · Fix external API key",
                Failure::Key,
            ),
            (
                Some(403),
                "Failed to authenticate. API Error: 403 not allowed",
                Failure::Key,
            ),
            (Some(403), "API Error: 403 forbidden", Failure::Key),
            (None, "Not logged in · Please run /login", Failure::Key),
            (Some(400), "Credit balance is too low", Failure::Credit),
            (
                Some(404),
                "There's an issue with the selected model (x).",
                Failure::Model,
            ),
            (
                Some(413),
                "Request too large (max 32MB). Try with a smaller file.",
                Failure::TooLarge,
            ),
            (
                Some(429),
                "API Error: Request rejected (429) · This request would exceed your organization's rate limit",
                Failure::RateLimit,
            ),
            (
                Some(429),
                "You've hit your session limit · resets 1:57am (UTC)",
                Failure::UsageLimit(Some("1:57am (UTC)".into())),
            ),
            (
                None,
                "Claude AI usage limit reached",
                Failure::UsageLimit(None),
            ),
            (Some(529), "API Error: 529 Overloaded.", Failure::Overloaded),
            (None, "API Error: Overloaded", Failure::Overloaded),
            (
                Some(500),
                "API Error: 500 Internal server error.",
                Failure::Provider,
            ),
            (
                None,
                "API Error: Unable to connect to API (ConnectionRefused)",
                Failure::Provider,
            ),
            (
                None,
                "API Error: Claude's response exceeded the 32000 output token maximum.",
                Failure::AnswerTooLong,
            ),
            (
                Some(400),
                "Prompt is too long · the request is ~210000 tokens",
                Failure::PromptTooLong,
            ),
            (
                Some(400),
                "API Error: 400 messages: something is wrong",
                Failure::Poisoned("API Error: 400 messages: something is wrong".into()),
            ),
        ];
        for (api_status, text, failure) in cases {
            let outcome = Outcome {
                api_status,
                ..result(text)
            };
            assert_eq!(end(outcome), End::Failed(failure), "{text}");
        }
    }

    #[test]
    fn names_of_the_result_count_before_its_words() {
        let base = result("API Error: whatever, Overloaded");
        let cases = [
            (
                Outcome {
                    stop_reason: Some("refusal".into()),
                    ..base.clone()
                },
                Failure::Declined,
            ),
            (
                Outcome {
                    subtype: "error_max_turns".into(),
                    ..base.clone()
                },
                Failure::MaxTurns,
            ),
            (
                Outcome {
                    subtype: "error_max_budget_usd".into(),
                    ..base.clone()
                },
                Failure::MaxBudget,
            ),
            (
                Outcome {
                    terminal_reason: Some("aborted_tools".into()),
                    ..base.clone()
                },
                Failure::Interrupted,
            ),
            (
                Outcome {
                    terminal_reason: Some("prompt_too_long".into()),
                    ..base
                },
                Failure::PromptTooLong,
            ),
        ];
        for (outcome, failure) in cases {
            assert_eq!(end(outcome), End::Failed(failure));
        }
        let unknown = Outcome {
            subtype: "error_during_execution".into(),
            terminal_reason: None,
            errors: vec!["No conversation found with session ID: 9".into()],
            ..result("")
        };
        assert_eq!(end(unknown), End::Failed(Failure::SessionLost));
    }

    #[test]
    fn a_success_without_stop_reason_was_cut_off() {
        let cut = Outcome {
            is_error: false,
            stop_reason: None,
            ..result("partial")
        };
        assert_eq!(end(cut.clone()), End::Cut);
        // A slash command answers without stop reason as well, and without terminal reason.
        let command = Outcome {
            terminal_reason: None,
            ..cut
        };
        assert_eq!(end(command), End::Answered);
    }

    #[test]
    fn an_end_without_result_is_told_by_exit_code_and_standard_error() {
        let silent = |exit, complaint: &str| of(&Work::default(), exit, complaint);
        let missing = End::NotStarted(Trouble::AgentMissing);
        assert_eq!(silent(Some(127), ""), missing);
        assert_eq!(silent(Some(126), "permission denied"), missing);
        assert_eq!(
            silent(Some(1), "Error: Session ID 1-2 is already in use."),
            End::Failed(Failure::SessionTaken)
        );
        assert_eq!(
            silent(Some(1), "No conversation found with session ID: 1-2"),
            End::Failed(Failure::SessionLost)
        );
        assert_eq!(silent(Some(0), ""), End::Early { exit: Some(0) });
        let mut work = Work::default();
        work.note(&Event::TextDelta("Half a".into()), Moment(0));
        assert_eq!(of(&work, Some(127), ""), End::Early { exit: Some(127) });
        assert_eq!(of(&work, Some(137), ""), End::Failed(Failure::Killed));
        assert_eq!(silent(Some(137), ""), End::Failed(Failure::Killed));
        let full = End::Failed(Failure::Full);
        assert_eq!(
            of(
                &work,
                Some(1),
                "Error: ENOSPC: no space left on device, write"
            ),
            full
        );
        assert_eq!(
            silent(Some(1), "sh: write error: No space left on device"),
            full
        );
    }

    #[test]
    fn a_long_error_is_cut() {
        let End::Failed(Failure::Other(text)) = end(result(&"é".repeat(5_000))) else {
            panic!("another end");
        };
        assert_eq!(text.chars().count(), ERROR_TEXT);
    }
}
