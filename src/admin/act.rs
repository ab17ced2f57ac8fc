//! The commands that need no more than their own words, and who may use which.

use crate::domain::guest::Person;
use crate::domain::ids::MemberId;
use crate::driver::inbound::Reply;
use crate::present::office as say;

use super::office::{Office, answered, told};

/// One of the office's commands. Names are as typed; Discord validates none.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// `/projects`: for everyone.
    Projects,
    /// `/guest show`.
    Guest(MemberId),
    /// `/guest suspend`.
    Suspend(MemberId),
    /// `/guest restore`.
    Restore(MemberId),
    /// `/guest models`: families; `None`: the configured ones.
    Models(MemberId, Option<String>),
    /// `/budget guest`: dollars a month; `None`: as configured.
    GuestBudget(MemberId, Option<f64>),
    /// `/budget project`: dollars a month; `None`: as configured.
    ProjectBudget(String, Option<f64>),
    /// `/spend`.
    Spend {
        /// Only this member.
        member: Option<MemberId>,
        /// Only this project.
        project: Option<String>,
        /// This month instead of the present one.
        month: Option<String>,
    },
    /// `/audit`.
    Audit,
    /// `/status`.
    Status,
    /// `/pause`: why.
    Pause(String),
    /// `/resume`.
    Resume,
}

impl Office {
    /// Does what a command says, for those who may use it.
    pub async fn act(&self, by: &Person, guild: crate::domain::ids::GuildId, act: Act) -> Reply {
        if !self.rules.guilds.contains(&guild) {
            return Reply::from(say::admins_only());
        }
        if act == Act::Projects {
            return Reply::from(told(self.projects(by)));
        }
        if !self.is_admin(by) {
            return Reply::from(say::admins_only());
        }
        match act {
            Act::Projects => Reply::from(told(self.projects(by))),
            Act::Guest(member) => Reply::from(told(self.guest(member))),
            Act::Suspend(member) => Reply::from(self.suspend(by, member, true).await),
            Act::Restore(member) => Reply::from(self.suspend(by, member, false).await),
            Act::Models(member, models) => {
                Reply::from(self.set_models(by, member, models.as_deref()).await)
            }
            Act::GuestBudget(member, dollars) => {
                Reply::from(self.set_budget(by, member, dollars).await)
            }
            Act::ProjectBudget(project, dollars) => {
                Reply::from(self.set_project_budget(by, &project, dollars).await)
            }
            Act::Spend {
                member,
                project,
                month,
            } => answered(self.spend(member, project.as_deref(), month.as_deref())),
            Act::Audit => Reply::from(told(self.audit())),
            Act::Status => Reply::from(self.status(by, guild).await),
            Act::Pause(why) => Reply::from(self.pause(by, Some(why.trim())).await),
            Act::Resume => Reply::from(self.pause(by, None).await),
        }
    }
}
