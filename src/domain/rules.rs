//! What the configuration decides about people, money and limits, as plain values.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::ids::{ChannelId, GuildId, MemberId, RoleId};
use super::money::Usd;

/// The configured rules of the house.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The servers that are served; every other one is ignored before anything else happens.
    pub guilds: Vec<GuildId>,
    /// Who may do everything, at `ship`, without a budget.
    pub owners: Vec<MemberId>,
    /// Roles whose members are admins.
    pub admin_roles: Vec<RoleId>,
    /// Where admins are told things.
    pub admin_channel: Option<ChannelId>,
    /// Channels that are listened to; empty: every one the bot can see. A thread counts as its parent.
    pub channels: Vec<ChannelId>,
    /// Model families for guests who have none of their own; the first is the default. Never empty.
    pub models: Vec<String>,
    /// Every model family that is known: those with a price, and those that the configuration names.
    pub families: Vec<String>,
    /// The zone of the budget's month.
    pub zone: TimeZone,
    /// Limits.
    pub limits: Limits,
}

/// `[limits]` of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Monthly budget of a new guest.
    pub budget: Usd,
    /// The most that one turn may cost.
    pub turn: Usd,
    /// The longest a turn may run.
    pub turn_time: Duration,
    /// The longest a turn may be silent while no tool is open and no question stands.
    pub silence: Duration,
    /// How long a question to people waits.
    pub question: Duration,
    /// Requests that may wait in one chat.
    pub queue_depth: usize,
    /// Turns that may run at once.
    pub running: usize,
    /// Turns that one guest may have running at once.
    pub running_per_guest: usize,
    /// Bytes of one attached file taken in, and of one request's files together.
    pub upload: u64,
    /// Bytes of one produced file sent out.
    pub download: u64,
    /// How far back missed messages are answered.
    pub catch_up: Duration,
}

impl Rules {
    /// Returns whether this member is an owner.
    pub fn is_owner(&self, member: MemberId) -> bool {
        self.owners.contains(&member)
    }

    /// Returns whether this member with these roles is an admin; owners are.
    pub fn is_admin(&self, member: MemberId, roles: &[RoleId]) -> bool {
        self.is_owner(member) || roles.iter().any(|role| self.admin_roles.contains(role))
    }
}
