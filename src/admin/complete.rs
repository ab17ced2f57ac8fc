//! What is offered while somebody types an option. Nobody is offered what they may not see.

use crate::domain::budget::{projects_at, runnable_projects};
use crate::domain::grant::Level;
use crate::domain::guest::Person;
use crate::domain::ids::GuildId;
use crate::domain::model::families_of;
use crate::domain::project::Project;
use crate::store::StoreError;

use super::office::Office;

/// Choices that may be offered at once (Discord).
const CHOICES: usize = 25;
/// Code points of one choice (Discord).
const CHOICE: usize = 100;

impl Office {
    /// Returns slug and title of projects on which the caller holds `need`, those that begin as typed first.
    pub fn complete_projects(
        &self,
        person: &Person,
        guild: GuildId,
        typed: &str,
        need: Level,
    ) -> Vec<(String, String)> {
        if !self.rules.guilds.contains(&guild) {
            return Vec::new();
        }
        offered(self.known(person).map(|known| {
            let projects = projects_at(&self.facts(person, &known), need);
            fitting(projects, typed)
        }))
    }

    /// Returns slug and title of all projects, for admins, who hand them out; nothing for others.
    pub fn complete_any_project(
        &self,
        person: &Person,
        guild: GuildId,
        typed: &str,
    ) -> Vec<(String, String)> {
        if !self.rules.guilds.contains(&guild) || !self.is_admin(person) {
            return Vec::new();
        }
        fitting(self.catalogue.0.iter().collect(), typed)
    }

    /// Returns the model families that the caller may use; nothing for those who can run nothing.
    pub fn complete_models(&self, person: &Person, guild: GuildId, typed: &str) -> Vec<String> {
        if !self.rules.guilds.contains(&guild) {
            return Vec::new();
        }
        let typed = typed.trim().to_lowercase();
        offered(self.known(person).map(|known| {
            if runnable_projects(&self.facts(person, &known)).is_empty() {
                return Vec::new();
            }
            let mut models = families_of(known.guest.models.as_deref(), &self.rules.models);
            models.retain(|model| model.contains(&typed) && model.len() <= CHOICE);
            models.truncate(CHOICES);
            models
        }))
    }
}

/// Gives the choices; a broken store is logged here and offers nothing.
fn offered<T>(choices: Result<Vec<T>, StoreError>) -> Vec<T> {
    choices.unwrap_or_else(|error| {
        tracing::error!(%error, "could not read what to offer");
        Vec::new()
    })
}

fn fitting(projects: Vec<&Project>, typed: &str) -> Vec<(String, String)> {
    let typed = typed.trim().to_lowercase();
    let begins = |project: &&Project| {
        project.slug.as_str().starts_with(&typed)
            || project.title.to_lowercase().starts_with(&typed)
    };
    let contains = |project: &&Project| {
        project.slug.as_str().contains(&typed) || project.title.to_lowercase().contains(&typed)
    };
    let (first, others): (Vec<&Project>, Vec<&Project>) = projects.into_iter().partition(begins);
    first
        .into_iter()
        .chain(others.into_iter().filter(contains))
        .take(CHOICES)
        .map(|project| (project.slug.to_string(), label(project)))
        .collect()
}

fn label(project: &Project) -> String {
    project.label().chars().take(CHOICE).collect()
}
