//! What Discord's errors mean to the rest of the house.

use crate::driver::ports::SurfaceError;

use super::rest::RestError;

/// Discord's error codes that are treated in a way of their own (topics/opcodes-and-status-codes).
pub(super) mod code {
    pub(crate) const UNKNOWN_CHANNEL: u32 = 10_003;
    pub(crate) const UNKNOWN_GUILD: u32 = 10_004;
    pub(crate) const UNKNOWN_MEMBER: u32 = 10_007;
    pub(crate) const UNKNOWN_MESSAGE: u32 = 10_008;
    pub(crate) const UNKNOWN_USER: u32 = 10_013;
    pub(crate) const UNKNOWN_INTERACTION: u32 = 10_062;
    pub(crate) const ANNOUNCEMENT_EDITS: u32 = 20_022;
    pub(crate) const OLD_MESSAGE_EDITS: u32 = 30_046;
    pub(crate) const TOO_LARGE: u32 = 40_005;
    pub(crate) const NOT_IN_FORUM: u32 = 40_058;
    pub(crate) const ACKNOWLEDGED: u32 = 40_060;
    pub(crate) const CLOUDFLARE: u32 = 40_333;
    pub(crate) const MISSING_ACCESS: u32 = 50_001;
    pub(crate) const FOREIGN_MESSAGE: u32 = 50_005;
    pub(crate) const MISSING_PERMISSION: u32 = 50_013;
    pub(crate) const SYSTEM_MESSAGE: u32 = 50_021;
    pub(crate) const WRONG_CHANNEL_TYPE: u32 = 50_024;
    pub(crate) const INVALID_FORM: u32 = 50_035;
    pub(crate) const FILE_TOO_LARGE: u32 = 50_045;
    pub(crate) const ARCHIVED: u32 = 50_083;
    pub(crate) const NO_HISTORY: u32 = 160_002;
    pub(crate) const THREAD_EXISTS: u32 = 160_004;
    pub(crate) const LOCKED: u32 = 160_005;
    pub(crate) const TOO_MANY_THREADS: u32 = 160_006;
    pub(crate) const TOO_MANY_NEWS_THREADS: u32 = 160_007;
    pub(crate) const BLOCKED_WORDS: u32 = 200_000;
    pub(crate) const BLOCKED_TITLE: u32 = 200_001;
    pub(crate) const BLOCKED_LINKS: u32 = 240_000;
    pub(crate) const UPLOADS_LIMITED: u32 = 400_001;
}

/// Returns what an error means; `needs` is the permission that the call takes, as Discord's settings call it.
pub(super) fn meaning(error: RestError, needs: &str) -> SurfaceError {
    let RestError::Refused { status, code, .. } = &error else {
        return SurfaceError::Away(error.to_string());
    };
    match *code {
        code::UNKNOWN_CHANNEL | code::UNKNOWN_GUILD => SurfaceError::ChannelGone,
        code::UNKNOWN_MESSAGE
        | code::OLD_MESSAGE_EDITS
        | code::ANNOUNCEMENT_EDITS
        | code::FOREIGN_MESSAGE
        | code::SYSTEM_MESSAGE => SurfaceError::MessageGone,
        code::MISSING_ACCESS => SurfaceError::Forbidden("View Channel".to_owned()),
        code::MISSING_PERMISSION => SurfaceError::Forbidden(needs.to_owned()),
        code::UPLOADS_LIMITED => SurfaceError::Forbidden("Attach Files".to_owned()),
        code::LOCKED => SurfaceError::Locked,
        code::TOO_LARGE | code::FILE_TOO_LARGE => SurfaceError::TooLarge,
        code::WRONG_CHANNEL_TYPE | code::TOO_MANY_THREADS | code::TOO_MANY_NEWS_THREADS => {
            SurfaceError::NoThreads
        }
        code::BLOCKED_WORDS | code::BLOCKED_TITLE | code::BLOCKED_LINKS => SurfaceError::Filtered,
        code::CLOUDFLARE => SurfaceError::Away(error.to_string()),
        _ => by_status(*status, &error, needs),
    }
}

/// Judges an error whose code says nothing to us.
fn by_status(status: u16, error: &RestError, needs: &str) -> SurfaceError {
    match status {
        413 => SurfaceError::TooLarge,
        // Without a code it comes from something before Discord's own servers.
        403 if error.code() == 0 => SurfaceError::Away(error.to_string()),
        403 => SurfaceError::Forbidden(needs.to_owned()),
        404 if error.code() != 0 => SurfaceError::ChannelGone,
        401 | 404 | 429 | 500.. => SurfaceError::Away(error.to_string()),
        _ => SurfaceError::Refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_mean_what_the_house_needs_to_know() {
        let refused = |status, code| {
            let error = RestError::Refused {
                call: "create message",
                status,
                code,
                message: "no".to_owned(),
            };
            meaning(error, "Send Messages")
        };
        let forbidden = |what: &str| SurfaceError::Forbidden(what.to_owned());
        let table = [
            (404, 10_003, SurfaceError::ChannelGone),
            (404, 10_008, SurfaceError::MessageGone),
            (429, 30_046, SurfaceError::MessageGone),
            (403, 50_001, forbidden("View Channel")),
            (403, 50_013, forbidden("Send Messages")),
            (403, 77, forbidden("Send Messages")),
            (400, 160_005, SurfaceError::Locked),
            (400, 40_005, SurfaceError::TooLarge),
            (413, 0, SurfaceError::TooLarge),
            (400, 50_024, SurfaceError::NoThreads),
            (400, 160_006, SurfaceError::NoThreads),
            (400, 200_000, SurfaceError::Filtered),
        ];
        for (status, code, expected) in table {
            assert_eq!(refused(status, code), expected, "{status} {code}");
        }
        for (status, code) in [(403, 0), (403, 40_333), (429, 0), (404, 0)] {
            assert!(matches!(refused(status, code), SurfaceError::Away(_)));
        }
        assert!(matches!(refused(400, 50_109), SurfaceError::Refused(_)));
    }
}
