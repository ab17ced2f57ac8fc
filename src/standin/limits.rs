//! Rate limits: a window per route and major id, and the global one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A limit: so many requests within so long a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The bucket's name.
    pub(crate) name: &'static str,
    pub(crate) limit: u32,
    pub(crate) window: Duration,
}

impl Rule {
    const fn new(name: &'static str, limit: u32, milliseconds: u64) -> Rule {
        Rule {
            name,
            limit,
            window: Duration::from_millis(milliseconds),
        }
    }
}

/// New messages of a channel.
pub(crate) const CREATE: Rule = Rule::new("create-message", 5, 5_000);
/// Edits in a channel.
pub(crate) const EDIT: Rule = Rule::new("edit-message", 5, 5_000);
/// Edits of messages that are older than an hour.
pub(crate) const OLD_EDIT: Rule = Rule::new("edit-old-message", 3, 6_000);
/// New names of a channel or thread.
pub(crate) const RENAME: Rule = Rule::new("rename-channel", 2, 600_000);

const GLOBAL: Rule = Rule::new("global", 50, 1_000);
const OTHER: Rule = Rule::new("other", 20, 1_000);

/// Returns the limit that a request comes under and the id that it counts for; None for requests
/// without a limit.
pub(crate) fn rule_of(method: &str, path: &[&str]) -> Option<(Rule, String)> {
    let rule = match (method, path) {
        (_, ["interactions", ..]) => return None,
        (_, ["webhooks", ..]) => Rule::new("webhook", 5, 2_000),
        ("POST", ["channels", _, "messages"]) => CREATE,
        ("PATCH", ["channels", _, "messages", _]) => EDIT,
        ("GET", ["channels", _, "messages", ..]) => Rule::new("read-messages", 10, 5_000),
        ("DELETE", ["channels", _, "messages", _]) => Rule::new("delete-message", 5, 1_000),
        (_, ["channels", _, "messages", _, "reactions", ..]) => Rule::new("reactions", 1, 250),
        ("POST", ["channels", _, "typing"]) => Rule::new("typing", 5, 5_000),
        ("POST", ["channels", _, "threads"] | ["channels", _, "messages", _, "threads"]) => {
            Rule::new("open-thread", 10, 10_000)
        }
        ("PATCH", ["channels", _]) => Rule::new("change-channel", 5, 15_000),
        _ => OTHER,
    };
    // The major parameter: channel or server; for webhooks id and token; for the rest the route
    // itself.
    let major = match path {
        ["channels" | "guilds", id, ..] => (*id).to_owned(),
        ["webhooks", id, token, ..] => format!("{id}/{token}"),
        _ => path.first().copied().unwrap_or_default().to_owned(),
    };
    Some((rule, major))
}

/// What a window has left, as the headers tell it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Standing {
    pub(crate) bucket: &'static str,
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    pub(crate) reset_after: Duration,
}

/// A request over a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TooMany {
    pub(crate) standing: Standing,
    pub(crate) global: bool,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    used: u32,
}

/// All windows, and how often a limit was passed.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    windows: HashMap<(&'static str, String), Window>,
    /// How many requests got a 429 by a limit; those of fault rules not counted.
    pub(crate) passed: u64,
}

impl Limits {
    /// Counts a request under the global limit and then under its own.
    pub(crate) fn take(
        &mut self,
        rule: Rule,
        major: &str,
        now: Instant,
    ) -> Result<Standing, TooMany> {
        self.count(GLOBAL, "", now)
            .map_err(|standing| self.refused(standing, true))?;
        self.count(rule, major, now)
            .map_err(|standing| self.refused(standing, false))
    }

    /// Counts under one limit alone, the global one left out.
    pub(crate) fn take_one(
        &mut self,
        rule: Rule,
        major: &str,
        now: Instant,
    ) -> Result<Standing, TooMany> {
        self.count(rule, major, now)
            .map_err(|standing| self.refused(standing, false))
    }

    fn refused(&mut self, standing: Standing, global: bool) -> TooMany {
        self.passed += 1;
        TooMany { standing, global }
    }

    fn count(&mut self, rule: Rule, major: &str, now: Instant) -> Result<Standing, Standing> {
        let window = self
            .windows
            .entry((rule.name, major.to_owned()))
            .or_insert(Window {
                began: now,
                used: 0,
            });
        if now.duration_since(window.began) >= rule.window {
            *window = Window {
                began: now,
                used: 0,
            };
        }
        let reset_after = rule.window.saturating_sub(now.duration_since(window.began));
        let standing = |remaining| Standing {
            bucket: rule.name,
            limit: rule.limit,
            remaining,
            reset_after,
        };
        if window.used >= rule.limit {
            return Err(standing(0));
        }
        window.used += 1;
        Ok(standing(rule.limit - window.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_message_within_five_seconds_is_one_too_many_and_another_channel_is_free() {
        let (mut limits, start) = (Limits::default(), Instant::now());
        for left in (0..5).rev() {
            assert_eq!(limits.take(CREATE, "1", start).unwrap().remaining, left);
        }
        let later = start + Duration::from_secs(2);
        let refused = limits.take(CREATE, "1", later).unwrap_err();
        assert_eq!(
            (refused.global, refused.standing.reset_after),
            (false, Duration::from_secs(3))
        );
        assert!(limits.take(CREATE, "2", later).is_ok());
        assert!(limits.take(EDIT, "1", later).is_ok());
        assert!(
            limits
                .take(CREATE, "1", start + Duration::from_secs(5))
                .is_ok()
        );
        assert_eq!(limits.passed, 1);
    }

    #[test]
    fn fifty_requests_a_second_pass_over_all_routes_and_then_none() {
        let (mut limits, start) = (Limits::default(), Instant::now());
        assert!((0..50).all(|channel| limits.take(CREATE, &channel.to_string(), start).is_ok()));
        assert!(limits.take(CREATE, "x", start).unwrap_err().global);
    }

    #[test]
    fn buckets_tell_the_method_apart_and_interactions_have_none() {
        let bucket =
            |method, path: &[&str]| rule_of(method, path).map(|(rule, major)| (rule.name, major));
        let message = ["channels", "7", "messages", "8"];
        assert_eq!(
            bucket("PATCH", &message),
            Some(("edit-message", "7".to_owned()))
        );
        assert_eq!(
            bucket("DELETE", &message),
            Some(("delete-message", "7".to_owned()))
        );
        assert_eq!(
            bucket("POST", &["interactions", "1", "t", "callback"]),
            None
        );
        assert_eq!(
            bucket("POST", &["webhooks", "1", "t"]),
            Some(("webhook", "1/t".to_owned()))
        );
    }

    proptest::proptest! {
        #[test]
        fn whoever_waits_as_told_is_never_refused_twice(gaps in proptest::collection::vec(0u64..3_000, 1..60)) {
            let (mut limits, mut now) = (Limits::default(), Instant::now());
            for gap in gaps {
                now += Duration::from_millis(gap);
                if let Err(over) = limits.take(CREATE, "1", now) {
                    now += over.standing.reset_after;
                    proptest::prop_assert!(limits.take(CREATE, "1", now).is_ok());
                }
            }
        }
    }
}
