//! What a side shows of itself: a key, and the certificates that stand for it.
use alloc::vec::Vec;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use crate::Failure;

/// In PEM.
pub struct Identity<'a> {
    pub certificate: &'a [u8],
    pub key: &'a [u8],
}

impl Identity<'_> {
    /// The other side may read more than we do, such as certificates of version 1: what matters is that the key is not
    /// known to be another's.
    pub fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, Failure> {
        let chain = CertificateDer::pem_slice_iter(self.certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|all| !all.is_empty()).ok_or(Failure::BadCertificate)?;
        let key = PrivateKeyDer::from_pem_slice(self.key).map_err(|_| Failure::BadKey)?;
        let key = provider.key_provider.load_private_key(key).map_err(|_| Failure::BadKey)?;
        let own = CertifiedKey::new(chain, key);
        match own.keys_match() {
            Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(Failure::BadPair),
            _ => Ok(own),
        }
    }
}
