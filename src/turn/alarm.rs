//! What admins are told of an end: whatever guests cannot mend.

use super::end::{End, Failure};
use super::event::Trouble;

/// What admins are told of a key that the provider does not take, whoever notices it: so they are told once.
pub const KEY_REFUSED: &str =
    "the provider refuses the key: renew `provider.api_key` or `provider.oauth_token`";

/// Returns what admins must be told of an end: whatever guests cannot mend.
pub(super) fn of(end: &End, complaint: &str) -> Option<String> {
    match end {
        End::Failed(failure) => failure_alarm(failure).map(str::to_owned),
        End::NotStarted(trouble) => trouble_alarm(trouble),
        End::SandboxLost => Some("the sandbox stays away during a turn".to_owned()),
        End::Early { exit: Some(code) } if *code != 0 && !complaint.trim().is_empty() => {
            let said: String = complaint.trim().chars().take(300).collect();
            Some(format!("the agent ended with exit code {code}: {said}"))
        }
        _ => None,
    }
}

fn trouble_alarm(trouble: &Trouble) -> Option<String> {
    match trouble {
        Trouble::SandboxAway => Some("the sandbox cannot be reached".to_owned()),
        Trouble::SandboxRefused => {
            Some("the sandbox refuses the bot's key: see `sandbox.api_key`".to_owned())
        }
        Trouble::AgentMissing => Some(
            "the agent's program is missing in the sandbox: install it or set `agent.command`"
                .to_owned(),
        ),
        Trouble::Workspace(why) => Some(format!("a workspace cannot be used: {why}")),
        Trouble::NotConfined(why) => Some(format!("commands cannot be confined: {why}")),
        Trouble::Lost => Some("a run and its directory are gone from the sandbox".to_owned()),
        Trouble::Full => Some("the sandbox has no room left".to_owned()),
        Trouble::Other(why) => Some(format!("a turn could not be started: {why}")),
        Trouble::Attachment { .. } => None,
    }
}

fn failure_alarm(failure: &Failure) -> Option<&'static str> {
    match failure {
        Failure::Key => Some(KEY_REFUSED),
        Failure::Credit => Some("the provider's account has no credit left"),
        Failure::UsageLimit(_) => Some("the provider's usage limit is reached"),
        Failure::Killed => {
            Some("an agent was killed from outside: does the sandbox have enough memory?")
        }
        Failure::Full => Some("the sandbox has no room left for what an agent writes"),
        Failure::Model => Some("the provider does not know a configured model: see `agent.models`"),
        _ => None,
    }
}
