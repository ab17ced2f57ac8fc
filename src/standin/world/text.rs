//! Mentions in texts, and which of them may notify.

use serde_json::Value;

use super::Id;
use crate::standin::refused::Refused;

/// The mentions that stand in a text, outside code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Mentioned {
    pub(crate) users: Vec<Id>,
    pub(crate) roles: Vec<Id>,
    pub(crate) everyone: bool,
}

/// Finds the mentions of a text.
pub(crate) fn mentions_in(text: &str) -> Mentioned {
    let mut found = Mentioned::default();
    for plain in outside(text, "```")
        .into_iter()
        .flat_map(|part| outside(part, "`"))
    {
        found.everyone |= plain.contains("@everyone") || plain.contains("@here");
        for candidate in plain.split("<@").skip(1) {
            let Some((inner, _)) = candidate.split_once('>') else {
                continue;
            };
            let (ids, digits) = match inner.strip_prefix('&') {
                Some(digits) => (&mut found.roles, digits),
                None => (&mut found.users, inner.strip_prefix('!').unwrap_or(inner)),
            };
            if let Ok(id) = digits.parse()
                && !ids.contains(&id)
            {
                ids.push(id);
            }
        }
    }
    found
}

/// Returns the pieces of a text that no pair of marks encloses.
fn outside<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let pieces: Vec<&str> = text.split(mark).collect();
    let unclosed = pieces.len().is_multiple_of(2);
    let last = pieces.len() - 1;
    let kept = pieces
        .into_iter()
        .enumerate()
        .filter(|(index, _)| index % 2 == 0 || unclosed && *index == last);
    kept.map(|(_, piece)| piece).collect()
}

/// Which mentions of one sort may notify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Allow {
    All,
    Only(Vec<Id>),
}

impl Allow {
    /// Tells whether this id may be notified.
    pub(crate) fn admits(&self, id: Id) -> bool {
        match self {
            Allow::All => true,
            Allow::Only(ids) => ids.contains(&id),
        }
    }
}

/// Discord's `allowed_mentions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) users: Allow,
    pub(crate) roles: Allow,
    pub(crate) everyone: bool,
    pub(crate) replied_user: bool,
}

impl Allowed {
    /// Returns the default of an ordinary message: everything pings.
    pub(crate) fn everything() -> Allowed {
        Allowed {
            users: Allow::All,
            roles: Allow::All,
            everyone: true,
            replied_user: true,
        }
    }

    /// Returns the default of an answer to an interaction: users alone.
    pub(crate) fn users_only() -> Allowed {
        Allowed {
            users: Allow::All,
            roles: Allow::Only(vec![]),
            everyone: false,
            replied_user: true,
        }
    }

    /// Reads `allowed_mentions` as Discord does.
    pub(crate) fn read(value: &Value) -> Result<Allowed, Refused> {
        let parse = value["parse"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut allowed = Allowed {
            users: Allow::Only(read_ids(value, "users")?),
            roles: Allow::Only(read_ids(value, "roles")?),
            everyone: false,
            replied_user: value["replied_user"].as_bool().unwrap_or(false),
        };
        for kind in parse {
            let sort = match kind.as_str() {
                Some("users") => &mut allowed.users,
                Some("roles") => &mut allowed.roles,
                Some("everyone") => {
                    allowed.everyone = true;
                    continue;
                }
                _ => {
                    let message = "Value must be one of ('users', 'everyone', 'roles').";
                    return Err(Refused::field(
                        &["allowed_mentions", "parse"],
                        "BASE_TYPE_CHOICES",
                        message,
                    ));
                }
            };
            if *sort != Allow::Only(vec![]) {
                let message = "parse and a list of the same kind are mutually exclusive.";
                let code = "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE";
                return Err(Refused::field(&["allowed_mentions"], code, message));
            }
            *sort = Allow::All;
        }
        Ok(allowed)
    }
}

fn read_ids(value: &Value, key: &str) -> Result<Vec<Id>, Refused> {
    let listed = value[key].as_array().map(Vec::as_slice).unwrap_or_default();
    if listed.len() > 100 {
        let message = "Must be 100 or fewer in length.";
        return Err(Refused::field(
            &["allowed_mentions", key],
            "BASE_TYPE_MAX_LENGTH",
            message,
        ));
    }
    let ids = listed.iter().map(|id| {
        let text = id
            .as_str()
            .map(str::to_owned)
            .unwrap_or_else(|| id.to_string());
        let message = format!("Value {text:?} is not snowflake.");
        text.parse()
            .map_err(|_| Refused::field(&["allowed_mentions", key], "NUMBER_TYPE_COERCE", message))
    });
    ids.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mentions_are_found_outside_code_only() {
        let cases = [
            ("<@1> <@!2> <@&3> <@1>", vec![1, 2], vec![3], false),
            (
                "`<@1>` ```\n<@2> @everyone\n``` <@3>",
                vec![3],
                vec![],
                false,
            ),
            ("```<@1>", vec![1], vec![], false),
            ("@here <@x> <@", vec![], vec![], true),
        ];
        for (text, users, roles, everyone) in cases {
            assert_eq!(
                mentions_in(text),
                Mentioned {
                    users,
                    roles,
                    everyone
                },
                "{text}"
            );
        }
    }

    #[test]
    fn allowed_mentions_refuse_what_discord_refuses() {
        for bad in [
            json!({"parse": ["users"], "users": ["1"]}),
            json!({"parse": ["bots"]}),
            json!({"users": ["x"]}),
            json!({"roles": vec!["1"; 101]}),
        ] {
            assert_eq!(Allowed::read(&bad).unwrap_err().code, 50035, "{bad}");
        }
        let none = Allowed::read(&json!({"parse": []})).unwrap();
        assert!(!none.users.admits(1) && !none.everyone && !none.replied_user);
        assert!(
            Allowed::read(&json!({"users": ["7"]}))
                .unwrap()
                .users
                .admits(7)
        );
    }
}
