//! `[agent]` of the configuration, as plain values.

/// How every agent of this house is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRules {
    /// The program, by name or absolute path in the sandbox.
    pub command: String,
    /// The tools it is given (`--tools`).
    pub tools: Vec<String>,
    /// The most API calls of one turn (`--max-turns`, measured).
    pub max_turns: u32,
    /// Whether working confinement is required for everybody but owners.
    pub confine: bool,
    /// Whether the agent may ask people.
    pub questions: bool,
    /// Reads denied to every run, as the CLI's rules write paths (`~/.ssh/**`).
    pub deny_read: Vec<String>,
    /// The owner's own words to every run.
    pub system_prompt: Option<String>,
    /// Further environment of every run.
    pub env: Vec<(String, String)>,
}
