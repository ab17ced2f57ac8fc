//! The catalogue: each project by itself, then what two of them must not share.

use std::path::Path;

use secrecy::SecretString;

use crate::domain::ids::{ChannelId, Slug};
use crate::domain::project::{Catalogue, Collect, Project, Workspace};

use super::super::{env_file, paths, sections};
use super::{Examination, ids};

impl Examination<'_> {
    pub(super) fn catalogue(&mut self) -> Catalogue {
        let mut projects: Vec<Project> = Vec::new();
        for (index, section) in self.config.projects.iter().enumerate() {
            let index = index.to_string();
            if let Some(project) = self.project(&index, section) {
                self.beside_the_others(&index, &project, &projects);
                projects.push(project);
            }
        }
        Catalogue(projects)
    }

    fn project(&mut self, index: &str, section: &sections::Project) -> Option<Project> {
        let path = |key| ["project", index, key];
        let slug: Slug = match section.slug.parse() {
            Ok(slug) => slug,
            Err(_) => {
                let what = format!(
                    "must be 1 to 32 of a-z, 0-9 and -, beginning with a letter or digit, not {:?}",
                    section.slug
                );
                self.add(&path("slug"), what);
                return None;
            }
        };
        let workspace = self.workspace(index, section);
        let texts = [
            ("title", &section.title),
            ("path", &section.path),
            ("system_prompt", &section.system_prompt),
        ];
        for (key, text) in texts {
            self.without_nul(&path(key), text.as_deref().unwrap_or_default());
        }
        Some(Project {
            title: section.title.clone().unwrap_or_else(|| slug.to_string()),
            slug,
            collect: collect(section.collect, &workspace),
            workspace,
            models: self.words(&path("models"), &section.models.0),
            budget: section
                .budget_usd
                .map(|amount| self.dollars(&path("budget_usd"), amount)),
            channels: ids(&section.channels.0, ChannelId),
            system_prompt: section.system_prompt.clone(),
            account: self.account(index, section),
            allowed_domains: self.words(&path("allowed_domains"), &section.allowed_domains.0),
            ship_env_file: section.ship_env_file.clone(),
        })
    }

    /// Reads the projects' files with credentials.
    pub(super) fn ship_env(
        &mut self,
        catalogue: &Catalogue,
    ) -> Vec<(Slug, Vec<(String, SecretString)>)> {
        let mut read = Vec::new();
        for (index, section) in self.config.projects.iter().enumerate() {
            let Some(file) = &section.ship_env_file else {
                continue;
            };
            self.secret_files.push(file.clone());
            let held = match std::fs::read_to_string(file) {
                Ok(text) => env_file::read(&text)
                    .map_err(|what| format!("names {}: {what}", file.display())),
                Err(_) => Err(format!(
                    "names {}, which is no file that the bot can read on this machine",
                    file.display()
                )),
            };
            match (
                held,
                catalogue
                    .0
                    .iter()
                    .find(|it| it.slug.as_str() == section.slug),
            ) {
                (Ok(held), Some(project)) => read.push((project.slug.clone(), held)),
                // The fault of its slug is told already.
                (Ok(_), None) => {}
                (Err(what), _) => self.add(&["project", &index.to_string(), "ship_env_file"], what),
            }
        }
        read
    }

    fn workspace(&mut self, index: &str, section: &sections::Project) -> Workspace {
        match (section.workspace, &section.path, &section.repo) {
            (sections::Workspace::InPlace, Some(path), None) => self.in_place(index, path),
            (sections::Workspace::Clone, None, Some(repo)) if repo_fits(repo) => {
                Workspace::Clone { repo: repo.clone() }
            }
            (sections::Workspace::Scratch, None, None) => Workspace::Scratch,
            (workspace, ..) => {
                let what = match workspace {
                    sections::Workspace::InPlace => {
                        "is \"in-place\": give path, the project's directory in the sandbox, and no repo"
                    }
                    sections::Workspace::Clone => {
                        "is \"clone\": give repo, an address or path that git can clone, without a password in it (the sandbox account's own git can hold one), and no path"
                    }
                    sections::Workspace::Scratch => {
                        "is \"scratch\", an empty directory for each chat: give neither path nor repo, or choose \"in-place\" or \"clone\""
                    }
                };
                self.add(&["project", index, "workspace"], what);
                Workspace::Scratch
            }
        }
    }

    fn in_place(&mut self, index: &str, path: &str) -> Workspace {
        let key = ["project", index, "path"];
        let home = self.config.home.as_deref();
        if let Some(what) = paths::objection(path, self.sandbox_is_here(), home) {
            self.add(&key, what);
        } else if self.holds_own_files(path) {
            let what = "holds the bot's own configuration or store, or lies in the store: the bot is never a project";
            self.add(&key, what);
        }
        Workspace::InPlace {
            path: paths::located(path, false).to_string_lossy().into_owned(),
        }
    }

    fn sandbox_is_here(&self) -> bool {
        self.config.sandbox.backend != Some(sections::Backend::OpenTerminal)
    }

    fn holds_own_files(&self, path: &str) -> bool {
        let place = paths::located(path, self.sandbox_is_here());
        let own = |file: &Path| {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
            file.canonicalize().unwrap_or(file)
        };
        let store = own(&self.config.store.path);
        own(&self.config.file).starts_with(&place) || paths::overlap(&store, &place)
    }

    fn account(&mut self, index: &str, section: &sections::Project) -> Option<String> {
        let account = section.account.clone()?;
        let fits = (1..=8).contains(&account.len())
            && account.starts_with(|c: char| c.is_ascii_lowercase())
            && account
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !fits {
            let what = format!("must be 1 to 8 of a-z and 0-9, a letter first, not {account:?}");
            self.add(&["project", index, "account"], what);
        }
        Some(account)
    }

    fn beside_the_others(&mut self, index: &str, project: &Project, others: &[Project]) {
        for other in others {
            if other.slug == project.slug {
                let what = format!("names {:?} a second time", project.slug.as_str());
                self.add(&["project", index, "slug"], what);
            }
            if let (Workspace::InPlace { path: one }, Workspace::InPlace { path: two }) =
                (&project.workspace, &other.workspace)
                && paths::overlap(Path::new(one), Path::new(two))
            {
                let what = format!("overlaps the path of project {:?}", other.slug.as_str());
                self.add(&["project", index, "path"], what);
            }
            if let Some(channel) = project.channels.iter().find(|c| other.channels.contains(c)) {
                let what = format!(
                    "holds {channel}, which already belongs to project {:?}",
                    other.slug.as_str()
                );
                self.add(&["project", index, "channels"], what);
            }
        }
    }
}

fn collect(collect: Option<sections::Collect>, workspace: &Workspace) -> Collect {
    match (collect, workspace) {
        (Some(sections::Collect::All), _) | (None, Workspace::Scratch) => Collect::All,
        (Some(sections::Collect::New), _) | (None, _) => Collect::New,
        (Some(sections::Collect::Outbox), _) => Collect::Outbox,
    }
}

/// Returns whether git can take this as what to clone, and never as an option.
fn repo_fits(repo: &str) -> bool {
    !repo.is_empty()
        && !repo.starts_with('-')
        && !repo.contains(char::is_control)
        && !holds_password(repo)
}

/// Returns whether an address has a password in it: every clone keeps its address, so the agent could read it at any level.
fn holds_password(repo: &str) -> bool {
    repo.split_once("://")
        .map(|(_, rest)| rest.split('/').next().unwrap_or_default())
        .and_then(|host| host.rsplit_once('@'))
        .is_some_and(|(user, _)| user.contains(':'))
}
