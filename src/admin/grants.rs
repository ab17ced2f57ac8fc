//! `/grant`, `/revoke`, `/grants`.

use jiff::{Span, Timestamp};

use crate::domain::grant::{Grant, Level, Subject};
use crate::domain::guest::Person;
use crate::domain::ids::{MemberId, Slug};
use crate::domain::time::Moment;
use crate::present::office as say;
use crate::store::StoreError;

use super::office::{Office, told};

/// A grant that was taken away: turns that rest on it are to be stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Whose.
    pub subject: Subject,
    /// On what.
    pub project: Slug,
}

impl Office {
    /// Gives a project to a member or a role, in place of what they held on it.
    ///
    /// `how_long` is a span such as `7d`, `12h`, `2 weeks`, counted in the configured zone; `None` is without end.
    pub async fn grant(
        &self,
        by: &Person,
        to: Subject,
        project: &str,
        level: Level,
        how_long: Option<&str>,
    ) -> String {
        let grant = match self.wanted_grant(by, to, project, level, how_long) {
            Ok(grant) => grant,
            Err(text) => return text,
        };
        match self.give(by, &grant) {
            Ok(text) => self.saved(text).await,
            Err(error) => told(Err(error)),
        }
    }

    /// Takes a grant away. Also returns what was taken, so that running turns can be stopped.
    pub async fn revoke(
        &self,
        by: &Person,
        from: Subject,
        project: &str,
    ) -> (String, Option<Revoked>) {
        if !self.is_admin(by) {
            return (say::admins_only(), None);
        }
        match self.take(by, from, project) {
            // Turns are stopped even if the disk fails: the grant is gone for as long as the program runs.
            Ok((text, Some(revoked))) => (self.saved(text).await, Some(revoked)),
            Ok((text, None)) => (text, None),
            Err(error) => (told(Err(error)), None),
        }
    }

    /// Lists all grants, or those given to one member by name.
    pub fn grants(&self, by: &Person, of: Option<MemberId>) -> String {
        if !self.is_admin(by) {
            return say::admins_only();
        }
        let grants = match of {
            Some(member) => self.store.grants_for(member, &[]),
            None => self.store.grants(),
        };
        told(grants.map(|grants| say::grants_list(&grants, of, self.now())))
    }

    /// Returns the grant that is asked for, or what is wrong with it.
    fn wanted_grant(
        &self,
        by: &Person,
        to: Subject,
        project: &str,
        level: Level,
        how_long: Option<&str>,
    ) -> Result<Grant, String> {
        if !self.is_admin(by) {
            return Err(say::admins_only());
        }
        if self.is_everyone(to) {
            return Err(say::not_everyone());
        }
        let until = how_long
            .map(|text| self.ends(text).ok_or_else(|| say::unknown_span(text)))
            .transpose()?;
        Ok(Grant {
            subject: to,
            project: self.project_named(project)?,
            level,
            by: by.member,
            at: self.now(),
            until,
        })
    }

    /// Returns whether this is the role that everybody has: its id is the server's (Discord reference, "Roles").
    fn is_everyone(&self, subject: Subject) -> bool {
        matches!(subject, Subject::Role(role) if self.rules.guilds.iter().any(|guild| guild.0 == role.0))
    }

    /// Returns the catalogue's project of that name, or a text that names the nearest. For admins only: it names all.
    pub(super) fn project_named(&self, asked: &str) -> Result<Slug, String> {
        let name = asked.trim().to_lowercase();
        let slugs: Vec<Slug> = self.catalogue.0.iter().map(|p| p.slug.clone()).collect();
        if let Some(slug) = slugs.iter().find(|slug| slug.as_str() == name) {
            return Ok(slug.clone());
        }
        let nearest = self
            .catalogue
            .0
            .iter()
            .map(|project| {
                let title = strsim::jaro_winkler(&name, &project.title.to_lowercase());
                let slug = strsim::jaro_winkler(&name, project.slug.as_str());
                (title.max(slug), &project.slug)
            })
            .filter(|(likeness, _)| *likeness > 0.7)
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, slug)| slug);
        Err(say::unknown_project(asked, nearest, &slugs))
    }

    /// Returns when a span ends that begins now; it must end later than now.
    fn ends(&self, how_long: &str) -> Option<Moment> {
        let span: Span = how_long.trim().to_lowercase().parse().ok()?;
        let now = Timestamp::from_millisecond(self.now().0).ok()?;
        let end = now
            .to_zoned(self.rules.zone.clone())
            .checked_add(span)
            .ok()?;
        (end.timestamp() > now).then(|| Moment(end.timestamp().as_millisecond()))
    }

    pub(super) fn give(&self, by: &Person, grant: &Grant) -> Result<String, StoreError> {
        let before = self.store.grant(grant.subject, &grant.project)?;
        self.note(
            by,
            format!("grant {} {}", name_of(grant.subject), grant.project),
            before.as_ref().map(terms_of),
            Some(terms_of(grant)),
        )?;
        self.store.give(grant)?;
        Ok(say::granted(grant, before.as_ref()))
    }

    /// Takes a grant away. Its project may have left the catalogue, and its record may be damaged: rights go all the same.
    fn take(
        &self,
        by: &Person,
        from: Subject,
        project: &str,
    ) -> Result<(String, Option<Revoked>), StoreError> {
        let Ok(slug) = project.trim().to_lowercase().parse::<Slug>() else {
            return self.nothing_taken(from, project);
        };
        let before = match self.store.grant(from, &slug) {
            Ok(None) => return self.nothing_taken(from, project),
            Ok(Some(grant)) => Some(grant),
            Err(error) => {
                tracing::error!(%error, "takes a grant away that could not be read");
                None
            }
        };
        let terms = before.as_ref().map_or("unreadable".to_owned(), terms_of);
        let what = format!("revoke {} {slug}", name_of(from));
        self.note(by, what, Some(terms), None)?;
        self.store.revoke(from, &slug)?;
        let text = match before {
            Some(grant) => say::revoked(&grant, &self.roles_on(&slug, from)),
            None => say::revoked_unread(from, &slug),
        };
        let revoked = Revoked {
            subject: from,
            project: slug,
        };
        Ok((text, Some(revoked)))
    }

    fn nothing_taken(
        &self,
        from: Subject,
        project: &str,
    ) -> Result<(String, Option<Revoked>), StoreError> {
        let mut holds = self.store.grants()?;
        holds.retain(|grant| grant.subject == from);
        Ok((say::nothing_to_revoke(from, project, &holds), None))
    }

    /// Returns the live grants of roles on a project, beside that of `but`. Only a hint: what cannot be read is left out.
    fn roles_on(&self, project: &Slug, but: Subject) -> Vec<Grant> {
        let mut grants = self.store.grants().unwrap_or_else(|error| {
            tracing::error!(%error, "could not look for roles that grant a project");
            Vec::new()
        });
        grants.retain(|grant| {
            grant.project == *project
                && grant.subject != but
                && matches!(grant.subject, Subject::Role(_))
                && grant.is_live(self.now())
        });
        grants
    }
}

fn name_of(subject: Subject) -> String {
    match subject {
        Subject::Member(member) => format!("member {member}"),
        Subject::Role(role) => format!("role {role}"),
    }
}

fn terms_of(grant: &Grant) -> String {
    match grant.until {
        Some(until) => format!("{} until {}", grant.level, until.seconds()),
        None => grant.level.to_string(),
    }
}
