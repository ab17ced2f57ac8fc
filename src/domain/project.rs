//! The catalogue: what the configuration says about each project.

use super::ids::{ChannelId, Slug};
use super::money::Usd;

/// Where a chat of a project works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workspace {
    /// An empty directory for each chat.
    Scratch,
    /// The project's own directory in the sandbox, shared by its chats.
    InPlace {
        /// Absolute path in the sandbox.
        path: String,
    },
    /// A fresh clone for each chat.
    Clone {
        /// What `git clone` takes.
        repo: String,
    },
}

/// Which produced files come back with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collect {
    /// Whatever the turn made or changed in the workspace or the outbox.
    All,
    /// Only files that did not exist before the turn, and the outbox.
    New,
    /// Only the outbox.
    Outbox,
}

/// One entry of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Its short name.
    pub slug: Slug,
    /// What people read.
    pub title: String,
    /// Where its chats work.
    pub workspace: Workspace,
    /// Model families allowed here; empty: as the guest's.
    pub models: Vec<String>,
    /// Monthly budget of the project; `None`: no limit of its own.
    pub budget: Option<Usd>,
    /// Which produced files come back.
    pub collect: Collect,
    /// Channels in which a mention starts in this project.
    pub channels: Vec<ChannelId>,
    /// The owner's own words to the agent about it.
    pub system_prompt: Option<String>,
    /// A fixed sandbox account instead of a minted one.
    pub account: Option<String>,
    /// Network names that confined commands may reach at `ship`.
    pub allowed_domains: Vec<String>,
    /// File with credentials that exist only at `ship`, a path on the bot's machine.
    pub ship_env_file: Option<std::path::PathBuf>,
}

impl Project {
    /// Returns the title, or the short name where the title is blank: Discord takes no blank choice.
    pub fn label(&self) -> &str {
        match self.title.trim() {
            "" => self.slug.as_str(),
            title => title,
        }
    }
}

/// All configured projects, in the order of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue(pub Vec<Project>);

impl Catalogue {
    /// Returns the project of that name.
    pub fn get(&self, slug: &Slug) -> Option<&Project> {
        self.0.iter().find(|project| project.slug == *slug)
    }

    /// Returns the catalogue with these monthly budgets in place of the configured ones.
    pub fn with_budgets(&self, budgets: &[(Slug, Usd)]) -> Catalogue {
        let mut changed = self.clone();
        for (slug, budget) in budgets {
            let project = changed.0.iter_mut().find(|project| project.slug == *slug);
            if let Some(project) = project {
                project.budget = Some(*budget);
            }
        }
        changed
    }
}
