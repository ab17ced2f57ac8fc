//! Why a call to Discord failed. Never holds an address: those of interactions contain a token that speaks as the bot.

/// Why a call failed, after the waits and retries that were right for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestError {
    /// Discord answered with an error.
    #[error("{call}: discord answers {status} with code {code}: {message}")]
    Refused {
        /// What was asked.
        call: &'static str,
        /// The HTTP status.
        status: u16,
        /// Discord's own code; zero where it gave none.
        code: u32,
        /// Discord's words and the paths of the fields that it rejects, shortened.
        message: String,
    },
    /// No usable answer within the call's deadline: try again later.
    #[error("{call}: {why}")]
    Away {
        /// What was asked.
        call: &'static str,
        /// What happened, fit for the log.
        why: String,
    },
}

impl RestError {
    /// Returns Discord's code of the error; zero where there is none.
    pub fn code(&self) -> u32 {
        match self {
            RestError::Refused { code, .. } => *code,
            RestError::Away { .. } => 0,
        }
    }

    /// Returns the HTTP status; zero where there was no answer.
    pub fn status(&self) -> u16 {
        match self {
            RestError::Refused { status, .. } => *status,
            RestError::Away { .. } => 0,
        }
    }
}
