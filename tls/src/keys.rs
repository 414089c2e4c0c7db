//! Keys of one direction (RFC 8446, sections 7.1 to 7.3): its traffic secret, and what comes of that.
use core::sync::atomic::{compiler_fence, Ordering};

use ring::aead::{Algorithm, LessSafeKey, UnboundKey, AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305};
use ring::hkdf::{self, Prk, HKDF_SHA256, HKDF_SHA384};

/// Of the longest secret, that of SHA-384.
pub const SECRET_MAX: usize = 48;

/// Overwrites what nobody reads any more, which a compiler would leave out.
pub fn forget(bytes: &mut [u8]) {
    for byte in bytes {
        unsafe { core::ptr::write_volatile(byte, 0) };
    }
    compiler_fence(Ordering::SeqCst);
}

/// By their numbers in TLS.
#[derive(Clone, Copy)]
pub enum Suite {
    Aes128 = 0x1301,
    Aes256 = 0x1302,
    Chacha20 = 0x1303,
}

impl Suite {
    pub fn of(number: u16) -> Option<Suite> {
        match number {
            0x1301 => Some(Suite::Aes128),
            0x1302 => Some(Suite::Aes256),
            0x1303 => Some(Suite::Chacha20),
            _ => None,
        }
    }
    fn cipher(self) -> &'static Algorithm {
        match self {
            Suite::Aes128 => &AES_128_GCM,
            Suite::Aes256 => &AES_256_GCM,
            Suite::Chacha20 => &CHACHA20_POLY1305,
        }
    }
    fn hash(self) -> hkdf::Algorithm {
        match self {
            Suite::Aes128 | Suite::Chacha20 => HKDF_SHA256,
            Suite::Aes256 => HKDF_SHA384,
        }
    }
    pub fn secret_size(self) -> usize {
        match self {
            Suite::Aes128 | Suite::Chacha20 => 32,
            Suite::Aes256 => SECRET_MAX,
        }
    }
}

pub struct Secret {
    pub suite: Suite,
    bytes: [u8; SECRET_MAX],
}

impl Drop for Secret {
    fn drop(&mut self) {
        forget(&mut self.bytes);
    }
}

struct Size(usize);
impl hkdf::KeyType for Size {
    fn len(&self) -> usize {
        self.0
    }
}

impl Secret {
    /// `bytes` are as many as the suite's have, or more that are zeros.
    pub fn new(suite: Suite, bytes: &[u8]) -> Option<Secret> {
        let size = suite.secret_size();
        if bytes.len() < size || bytes[size..].iter().any(|&byte| byte != 0) {
            return None;
        }
        let mut secret = Secret { suite, bytes: [0; SECRET_MAX] };
        secret.bytes[..size].copy_from_slice(&bytes[..size]);
        Some(secret)
    }

    /// With zeros behind it.
    pub fn bytes(&self) -> &[u8; SECRET_MAX] {
        &self.bytes
    }

    /// HKDF-Expand-Label without context.
    fn expand(&self, label: &[u8], to: &mut [u8]) -> Option<()> {
        let prk = Prk::new_less_safe(self.suite.hash(), &self.bytes[..self.suite.secret_size()]);
        let size = (to.len() as u16).to_be_bytes();
        let prefix = b"tls13 ";
        let length = [(prefix.len() + label.len()) as u8];
        let info = [&size[..], &length, prefix, label, &[0]];
        prk.expand(&info, Size(to.len())).ok()?.fill(to).ok()
    }

    pub fn key(&self) -> Option<LessSafeKey> {
        let cipher = self.suite.cipher();
        let mut bytes = [0; 32];
        let key = &mut bytes[..cipher.key_len()];
        self.expand(b"key", key)?;
        let made = UnboundKey::new(cipher, key).ok();
        forget(&mut bytes);
        Some(LessSafeKey::new(made?))
    }

    pub fn iv(&self) -> Option<[u8; 12]> {
        let mut iv = [0; 12];
        self.expand(b"iv", &mut iv)?;
        Some(iv)
    }

    /// The one that follows when keys change.
    pub fn next(&self) -> Option<Secret> {
        let mut next = Secret { suite: self.suite, bytes: [0; SECRET_MAX] };
        self.expand(b"traffic upd", &mut next.bytes[..self.suite.secret_size()])?;
        Some(next)
    }
}
