//! Which models somebody may use.
//!
//! A *family* is a word such as `sonnet`. It allows itself as an alias, and every pinned id that has it as a part
//! between hyphens (`claude-sonnet-4-5-20250929`).

/// The family that is allowed where none is configured at all.
const FALLBACK: &str = "sonnet";

/// Returns whether the model `id` belongs to `family`; both in lower case.
fn belongs(id: &str, family: &str) -> bool {
    !family.is_empty() && format!("-{id}-").contains(&format!("-{family}-"))
}

/// Returns whether a model, by whichever name, belongs to one of these families.
pub fn is_allowed(model: &str, families: &[String]) -> bool {
    let model = model.to_ascii_lowercase();
    lower(families).iter().any(|family| belongs(&model, family))
}

/// Returns whether a text can be a model's name at all. It ends up as an argument, so it must not look like an option.
fn is_well_formed(id: &str) -> bool {
    id.len() <= 100
        && id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._:@/[]".contains(c))
}

fn lower(names: &[String]) -> Vec<String> {
    names
        .iter()
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns the families of a guest: their own, else the configured ones, else `sonnet`. Never empty.
pub fn families_of(own: Option<&[String]>, configured: &[String]) -> Vec<String> {
    let own = lower(own.unwrap_or_default());
    if !own.is_empty() {
        return own;
    }
    let configured = lower(configured);
    if configured.is_empty() {
        vec![FALLBACK.to_owned()]
    } else {
        configured
    }
}

/// Returns what of the guest's families the project allows, in the guest's order; all of them if it names none.
///
/// Of a family and a pinned id within it, the pinned id remains. Empty if they have nothing in common.
pub fn common(guest: &[String], project: &[String]) -> Vec<String> {
    let project = lower(project);
    if project.is_empty() {
        return guest.to_vec();
    }
    let mut both: Vec<String> = Vec::new();
    for mine in guest {
        for theirs in &project {
            let narrower = match (belongs(theirs, mine), belongs(mine, theirs)) {
                (true, _) => theirs,
                (false, true) => mine,
                (false, false) => continue,
            };
            if !both.contains(narrower) {
                both.push(narrower.clone());
            }
        }
    }
    both
}

/// Returns the model to run with: the one asked for if a family allows it, the first family if none was asked for.
pub fn choose(asked: Option<&str>, families: &[String]) -> Option<String> {
    let Some(asked) = named(asked) else {
        return families.first().cloned();
    };
    (is_well_formed(&asked) && families.iter().any(|family| belongs(&asked, family)))
        .then_some(asked)
}

/// Returns the model for somebody to whom every model is open: the one asked for if it can be one, else the first.
pub fn choose_freely(asked: Option<&str>, families: &[String]) -> Option<String> {
    match named(asked) {
        Some(asked) => is_well_formed(&asked).then_some(asked),
        None => families.first().cloned(),
    }
}

fn named(asked: Option<&str>) -> Option<String> {
    asked
        .map(|asked| asked.trim().to_ascii_lowercase())
        .filter(|asked| !asked.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_model_is_allowed_as_alias_or_as_pinned_id_of_an_allowed_family() {
        let table = [
            (None, "haiku sonnet", Some("haiku")),
            (Some(""), "haiku sonnet", Some("haiku")),
            (Some("sonnet"), "haiku sonnet", Some("sonnet")),
            (Some(" Sonnet "), "haiku sonnet", Some("sonnet")),
            (
                Some("claude-sonnet-4-5"),
                "sonnet",
                Some("claude-sonnet-4-5"),
            ),
            (Some("claude-4-sonnet"), "sonnet", Some("claude-4-sonnet")),
            (Some("opus"), "haiku sonnet", None),
            (Some("sonnetx"), "sonnet", None),
            (Some("mysonnet-4"), "sonnet", None),
            (
                Some("claude-opus-4"),
                "claude-opus-4",
                Some("claude-opus-4"),
            ),
            (
                Some("claude-opus-4-1"),
                "claude-opus-4",
                Some("claude-opus-4-1"),
            ),
            (Some("opus"), "claude-opus-4", None),
            (Some("--settings-sonnet"), "sonnet", None),
            (Some("-sonnet"), "sonnet", None),
            (Some("a b-sonnet"), "sonnet", None),
            (Some("x\n-sonnet"), "sonnet", None),
            (None, "", None),
        ];
        for (asked, families, right) in table {
            let got = choose(asked, &words(families));
            assert_eq!(got.as_deref(), right, "{asked:?} of {families:?}");
        }
    }

    #[test]
    fn a_model_on_the_wire_is_held_against_the_same_families() {
        let table = [
            ("claude-sonnet-4-5-20250929", "haiku Sonnet", true),
            ("Claude-Opus-4-8", "claude-opus-4", true),
            ("claude-opus-4-8", "haiku sonnet", false),
            ("claude-mysonnet-4", "sonnet", false),
            ("claude-opus-4-8", "", false),
        ];
        for (model, families, right) in table {
            assert_eq!(is_allowed(model, &words(families)), right, "{model}");
        }
    }

    #[test]
    fn a_guest_without_families_has_the_configured_ones_and_at_last_sonnet() {
        assert_eq!(
            families_of(Some(&words("Opus")), &words("haiku")),
            words("opus")
        );
        assert_eq!(families_of(None, &words("haiku opus")), words("haiku opus"));
        assert_eq!(families_of(Some(&[]), &words("haiku")), words("haiku"));
        assert_eq!(families_of(None, &[]), words("sonnet"));
    }

    #[test]
    fn guest_and_project_together_allow_only_what_both_allow() {
        let table = [
            ("haiku sonnet", "", "haiku sonnet"),
            ("haiku sonnet", "sonnet opus", "sonnet"),
            ("haiku sonnet", "sonnet haiku", "haiku sonnet"),
            ("sonnet", "claude-sonnet-4-5", "claude-sonnet-4-5"),
            ("claude-sonnet-4-5", "SONNET", "claude-sonnet-4-5"),
            ("haiku", "opus", ""),
        ];
        for (guest, project, right) in table {
            let got = common(&words(guest), &words(project));
            assert_eq!(got, words(right), "{guest:?} and {project:?}");
        }
    }

    #[test]
    fn an_owner_may_name_any_model_but_no_option() {
        assert_eq!(
            choose_freely(Some("opus"), &words("haiku")).as_deref(),
            Some("opus")
        );
        assert_eq!(
            choose_freely(None, &words("haiku")).as_deref(),
            Some("haiku")
        );
        assert_eq!(choose_freely(Some("--resume"), &words("haiku")), None);
    }
}
