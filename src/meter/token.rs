//! The token of a turn.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRngCore as _;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

/// Random bytes of a token: 256 bits.
const BYTES: usize = 32;

/// Makes a token that nobody can guess.
pub(super) fn mint() -> Result<SecretString, rand::rand_core::OsError> {
    let mut bytes = [0_u8; BYTES];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes).into())
}

/// Returns whether `given` is the token, in a time that does not tell how much of it fits.
pub(super) fn fits(token: &SecretString, given: &[u8]) -> bool {
    token.expose_secret().as_bytes().ct_eq(given).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_itself_alone() {
        let (token, other) = (mint().unwrap(), mint().unwrap());
        assert!(fits(&token, token.expose_secret().as_bytes()));
        for wrong in [other.expose_secret(), "", &token.expose_secret()[1..]] {
            assert!(!fits(&token, wrong.as_bytes()));
        }
        assert_eq!(token.expose_secret().len(), 43);
    }
}
