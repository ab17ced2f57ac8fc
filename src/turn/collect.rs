//! Which produced files are sent, in which messages and under which names, as a plan. It opens nothing.

use std::collections::HashSet;

use crate::domain::turn_record::OutFile;

use super::event::Found;

/// Files that one Discord message takes.
pub const FILES_PER_MESSAGE: usize = 10;
/// Bytes that one request to Discord may hold (documented; kept although more is said to pass).
pub const BYTES_PER_MESSAGE: u64 = 25 * 1024 * 1024;
/// Files that come back with one answer.
pub const FILES_PER_ANSWER: usize = 20;

/// Characters of a file's name.
const NAME_LENGTH: usize = 80;
const IMAGES: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// What the delivery allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryLimits {
    /// Bytes of one file: the least of what the server takes and what the owner allows.
    pub per_file: u64,
    /// Bytes of one message.
    pub per_message: u64,
    /// Files of one message.
    pub files_per_message: usize,
    /// Files of one answer.
    pub files: usize,
}

impl DeliveryLimits {
    /// Returns the platform's limits with this one for a single file.
    pub fn for_files_of(per_file: u64) -> DeliveryLimits {
        DeliveryLimits {
            per_file,
            per_message: BYTES_PER_MESSAGE,
            files_per_message: FILES_PER_MESSAGE,
            files: FILES_PER_ANSWER,
        }
    }
}

/// Why a file is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It is larger than a file may be.
    TooLarge {
        /// Bytes allowed.
        limit: u64,
    },
    /// Enough others are sent.
    TooMany {
        /// Files allowed.
        limit: usize,
    },
}

/// A file that is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Path as people should see it.
    pub shown: String,
    /// Bytes.
    pub size: u64,
    /// Why.
    pub why: LeftOut,
}

/// What is sent, message by message, and what is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The files of each message: images first, then the rest.
    pub batches: Vec<Vec<OutFile>>,
    /// What is left out, and why.
    pub left_out: Vec<Skipped>,
}

/// Plans the delivery of what was found: images first, both kinds in the order in which they were found.
pub fn plan(found: &[Found], limits: &DeliveryLimits) -> Plan {
    let mut plan = Plan::default();
    let mut names = HashSet::new();
    let mut taken = 0;
    for file in in_order(found) {
        let most = limits.per_file.min(limits.per_message);
        let why = if file.size > most {
            LeftOut::TooLarge { limit: most }
        } else if taken == limits.files {
            LeftOut::TooMany {
                limit: limits.files,
            }
        } else {
            taken += 1;
            let name = unique(safe_name(&file.shown), &mut names);
            put(&mut plan.batches, file, name, limits);
            continue;
        };
        plan.left_out.push(Skipped {
            shown: file.shown.clone(),
            size: file.size,
            why,
        });
    }
    plan
}

fn in_order(found: &[Found]) -> impl Iterator<Item = &Found> {
    let (images, others): (Vec<_>, Vec<_>) = found.iter().partition(|file| is_image(&file.shown));
    images.into_iter().chain(others)
}

fn put(batches: &mut Vec<Vec<OutFile>>, file: &Found, name: String, limits: &DeliveryLimits) {
    let out = OutFile {
        path: file.path.clone(),
        name,
        size: file.size,
    };
    match batches.last_mut() {
        Some(batch)
            if batch.len() < limits.files_per_message
                && batch.iter().map(|other| other.size).sum::<u64>() + out.size
                    <= limits.per_message =>
        {
            batch.push(out);
        }
        _ => batches.push(vec![out]),
    }
}

fn is_image(shown: &str) -> bool {
    split_name(shown)
        .1
        .is_some_and(|extension| IMAGES.contains(&extension.to_ascii_lowercase().as_str()))
}

/// Returns the last part of the path with everything but letters, digits, `.`, `_` and `-` replaced: Discord replaces
/// other names by its own rules, and control characters break the upload.
fn safe_name(shown: &str) -> String {
    let base = shown.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = base
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') => c,
            _ => '_',
        })
        .collect();
    let (stem, extension) = split_name(clean.trim_start_matches('.'));
    let stem = match stem.trim_start_matches(['.', '_', '-']) {
        "" => "file",
        stem => stem,
    };
    match extension {
        None => cut(stem, NAME_LENGTH).to_owned(),
        Some(extension) => format!("{}.{}", cut(stem, NAME_LENGTH - 11), cut(extension, 10)),
    }
}

/// Both texts are ASCII here, so any byte is a border.
fn cut(text: &str, most: usize) -> &str {
    text.get(..most).unwrap_or(text)
}

fn split_name(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !extension.is_empty() => (stem, Some(extension)),
        _ => (name.trim_end_matches('.'), None),
    }
}

fn unique(name: String, taken: &mut HashSet<String>) -> String {
    let mut candidate = name.clone();
    let mut number = 2;
    while !taken.insert(candidate.to_ascii_lowercase()) {
        candidate = match split_name(&name) {
            (stem, Some(extension)) => format!("{stem}-{number}.{extension}"),
            (stem, None) => format!("{stem}-{number}"),
        };
        number += 1;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn found(shown: &str, size: u64) -> Found {
        Found {
            path: format!("/srv/{shown}"),
            shown: shown.to_owned(),
            size,
        }
    }

    fn names(plan: &Plan) -> Vec<Vec<&str>> {
        plan.batches
            .iter()
            .map(|batch| batch.iter().map(|file| file.name.as_str()).collect())
            .collect()
    }

    #[test]
    fn images_come_first_and_each_kind_keeps_its_order() {
        let all = [
            found("b.csv", 1),
            found("out/z.PNG", 1),
            found("a.txt", 1),
            found("a.jpeg", 1),
        ];
        let plan = plan(&all, &DeliveryLimits::for_files_of(MIB));
        assert_eq!(names(&plan), [["z.PNG", "a.jpeg", "b.csv", "a.txt"]]);
    }

    #[test]
    fn twenty_five_files_come_in_batches_of_ten_up_to_the_cap() {
        let all: Vec<_> = (0..25).map(|n| found(&format!("{n}.txt"), 1)).collect();
        let plan = plan(&all, &DeliveryLimits::for_files_of(MIB));
        let sizes: Vec<_> = plan.batches.iter().map(Vec::len).collect();
        assert_eq!(sizes, [10, 10]);
        assert_eq!(plan.left_out.len(), 5);
        assert_eq!(plan.left_out[0].shown, "20.txt");
        assert_eq!(plan.left_out[0].why, LeftOut::TooMany { limit: 20 });
    }

    #[test]
    fn a_file_that_is_too_large_is_named_and_the_others_still_come() {
        let all = [found("big.bin", 11 * MIB), found("small.bin", 10 * MIB)];
        let plan = plan(&all, &DeliveryLimits::for_files_of(10 * MIB));
        assert_eq!(names(&plan), [["small.bin"]]);
        assert_eq!(
            plan.left_out,
            [Skipped {
                shown: "big.bin".into(),
                size: 11 * MIB,
                why: LeftOut::TooLarge { limit: 10 * MIB },
            }]
        );
    }

    #[test]
    fn ten_files_of_nine_megabytes_are_spread_over_messages() {
        let all: Vec<_> = (0..10)
            .map(|n| found(&format!("{n}.bin"), 9 * MIB))
            .collect();
        let plan = plan(&all, &DeliveryLimits::for_files_of(10 * MIB));
        let sizes: Vec<_> = plan.batches.iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2, 2, 2, 2]);
    }

    #[test]
    fn names_are_safe_and_unique() {
        let cases = [
            ("a/b/plot.png", "plot.png"),
            ("c/plot.png", "plot-2.png"),
            ("Plot.PNG", "Plot-3.PNG"),
            ("my plot (1).png", "my_plot__1_.png"),
            ("..", "file"),
            ("", "file-2"),
            (".env", "env"),
            ("-rf", "rf"),
            ("é.txt", "file.txt"),
            ("a\nb\u{202e}.txt", "a_b_.txt"),
            ("x\\..\\y", "y"),
            ("@everyone.md", "everyone.md"),
        ];
        let all: Vec<_> = cases.iter().map(|(shown, _)| found(shown, 1)).collect();
        let limits = DeliveryLimits {
            files: 100,
            files_per_message: 100,
            ..DeliveryLimits::for_files_of(MIB)
        };
        let plan = plan(&all, &limits);
        for (shown, name) in cases {
            let path = format!("/srv/{shown}");
            let out = plan.batches.iter().flatten().find(|out| out.path == path);
            assert_eq!(out.unwrap().name, name, "{shown:?}");
        }
    }

    proptest! {
        #[test]
        fn every_plan_keeps_every_limit_and_loses_no_file(
            files in prop::collection::vec(("\\PC{0,120}", 0..40 * MIB), 0..60),
            per_file in 0..60 * MIB,
        ) {
            let all: Vec<_> = files.iter().map(|(name, size)| found(name, *size)).collect();
            let limits = DeliveryLimits::for_files_of(per_file);
            let plan = plan(&all, &limits);
            let sent: usize = plan.batches.iter().map(Vec::len).sum();
            prop_assert_eq!(sent + plan.left_out.len(), all.len());
            prop_assert!(sent <= limits.files);
            let mut seen = HashSet::new();
            for batch in &plan.batches {
                prop_assert!(!batch.is_empty() && batch.len() <= limits.files_per_message);
                prop_assert!(batch.iter().map(|file| file.size).sum::<u64>() <= limits.per_message);
                for file in batch {
                    prop_assert!(file.size <= per_file);
                    prop_assert!(!file.name.is_empty() && file.name.len() <= NAME_LENGTH + 4);
                    prop_assert!(file.name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)));
                    prop_assert!(seen.insert(file.name.to_ascii_lowercase()));
                }
            }
        }
    }
}
