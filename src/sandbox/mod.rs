//! Where turns run: five verbs with two backends. Nothing here knows what an agent is.

pub mod local;
pub mod open_terminal;
pub mod shell;

mod confinement;
mod measure;
mod transfer;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::domain::ids::AccountId;

/// One short command for an account.
#[derive(Clone, Debug)]
pub struct Exec {
    /// Source for `sh`. Fixed text: whatever varies comes in `vars`, so that nothing of it shows in a process list or a log.
    pub script: String,
    /// Bytes for the command, each below 96 KiB: it finds them as environment variables `LC_INN_<NAME>` in base64url
    /// without padding, which sudo lets through and no list shows (measured, open-terminal 0.14.5).
    pub vars: Vec<(&'static str, Vec<u8>)>,
    /// How long it may take.
    pub limit: Duration,
    /// How many bytes of standard output are taken; more is an error.
    pub most: usize,
}

/// What a command gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Its exit code; 128 + n for signal n.
    pub code: i32,
    /// Standard output, exact bytes.
    pub out: Bytes,
}

/// Whether confinement truly works for an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// A confined command was tried and was confined.
    Works,
    /// It does not work; why and how to mend it, for admins.
    Missing(String),
}

/// What a sandbox tells about an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Absolute path of the account's home.
    pub home: String,
    /// Whether Bash can be confined there.
    pub confinement: Confinement,
}

/// Names a run to be killed.
#[derive(Clone, Debug)]
pub struct Target {
    /// The directory of the turn, `~/…`.
    pub directory: String,
    /// The value that every process of the run carries as `INNKEEPER_RUN` in its environment.
    pub mark: String,
    /// Whether the account has no other run: then everything of the account is ended.
    pub alone: bool,
}

/// Why a verb failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SandboxError {
    /// Not reachable, or answered with nonsense: try again later.
    #[error("the sandbox cannot be used now: {0}")]
    Away(String),
    /// It refuses the key: no use in trying again.
    #[error("the sandbox refuses the key: {0}")]
    Refused(String),
    /// The command took longer than its limit.
    #[error("the command took longer than {0:?}")]
    Slow(Duration),
    /// It gave more than was asked for.
    #[error("the command gave more than {0} bytes")]
    TooMuch(usize),
    /// No room left.
    #[error("the sandbox has no room left")]
    Full,
    /// The thing named is not there, or is no plain file.
    #[error("{0} is missing or is no regular file")]
    Gone(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// A sandbox. Paths are absolute or begin with `~/` (the account's home); none is ever opened with other rights than the account's.
#[async_trait]
pub trait Sandbox: Send + Sync + std::fmt::Debug {
    /// Runs one short command as the account, in its home, with a clean environment, and waits for it.
    async fn exec(&self, account: &AccountId, exec: Exec) -> Result<Done, SandboxError>;

    /// Writes a new file as the account, whole or not at all (temporary name, rename); makes its directory (0700).
    async fn put(&self, account: &AccountId, path: &str, bytes: Bytes) -> Result<(), SandboxError>;

    /// Reads a regular file with one link as the account, following no symlink in its last part.
    /// More than `most` bytes is [`SandboxError::TooMuch`].
    async fn get(
        &self,
        account: &AccountId,
        path: &str,
        most: usize,
    ) -> Result<Bytes, SandboxError>;

    /// Ends a run: everything that belongs to it, and looks until nothing is left.
    async fn kill(&self, account: &AccountId, target: &Target) -> Result<(), SandboxError>;

    /// Tells the account's home, making the account if need be, and tries whether confinement works.
    async fn probe(&self, account: &AccountId) -> Result<Probe, SandboxError>;
}
