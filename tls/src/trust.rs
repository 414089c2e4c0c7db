//! Whom a client believes, and whom a server.
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};
use webpki::{EndEntityCert, KeyUsage};

use crate::Failure;

/// What a file of authorities has.
#[derive(Debug)]
struct Named {
    certificates: Vec<CertificateDer<'static>>,
    /// Those that may sign others. Perhaps none: a certificate that is no authority's stands for itself alone, and
    /// webpki would take whatever is in here for an authority's.
    authorities: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl Named {
    /// Of certificates in PEM, of which those that cannot be read are left out: systems have some. `None` where none
    /// can be.
    fn read(pem: &[u8], provider: &Arc<CryptoProvider>) -> Option<Named> {
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).flatten().collect();
        let mut authorities = RootCertStore::empty();
        let mut readable = false;
        for certificate in &certificates {
            let alone = is_no_authoritys(certificate, provider);
            readable |= alone || authorities.add(certificate.clone()).is_ok();
        }
        readable.then(|| Named { certificates, authorities, provider: provider.clone() })
    }

    fn has(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.iter().any(|named| named.as_ref() == certificate.as_ref())
    }

    fn algorithms(&self) -> &'static [&'static dyn SignatureVerificationAlgorithm] {
        self.provider.signature_verification_algorithms.all
    }
}

/// Whether a certificate is one of version 3 that does not say that it is an authority's.
fn is_no_authoritys(certificate: &CertificateDer<'_>, provider: &CryptoProvider) -> bool {
    let wrong = |now| wrong_by_itself(certificate, now, KeyUsage::server_auth(), provider);
    let mut found = wrong(UnixTime::since_unix_epoch(Duration::ZERO));
    // Within its time: what it is comes next then, and what it may be used for behind that.
    if let Some(webpki::Error::CertNotValidYet { not_before, .. }) = found {
        found = wrong(not_before);
    }
    matches!(
        found,
        Some(
            webpki::Error::UnknownIssuer
                | webpki::Error::RequiredEkuNotFoundContext(_)
                | webpki::Error::EmptyEkuExtension
        )
    )
}

/// What is wrong with a certificate where there are no authorities at all. Its time, and what it may be used for, is
/// looked at first.
fn wrong_by_itself(
    certificate: &CertificateDer<'_>,
    now: UnixTime,
    usage: KeyUsage,
    provider: &CryptoProvider,
) -> Option<webpki::Error> {
    let algorithms = provider.signature_verification_algorithms.all;
    EndEntityCert::try_from(certificate)
        .and_then(|it| it.verify_for_usage(algorithms, &[], &[], now, usage, None, None).map(|_| ()))
        .err()
}

/// The usual check of chain, time and name, and beside it: a server's certificate that is itself among the authorities
/// is believed as it is, whoever has signed it. `openssl req -x509` makes such ones, which say that they are an
/// authority's and would be refused as a server's.
#[derive(Debug)]
pub struct Trust {
    named: Named,
}

/// `None` where no certificate can be read.
pub fn trust(authorities: &[u8], provider: &Arc<CryptoProvider>) -> Option<Arc<Trust>> {
    Some(Arc::new(Trust { named: Named::read(authorities, provider)? }))
}

impl Trust {
    fn usual(
        &self,
        server: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Named { authorities, .. } = &self.named;
        let server = ParsedCertificate::try_from(server)?;
        let algorithms = self.named.algorithms();
        verify_server_cert_signed_by_trust_anchor(&server, authorities, others, now, algorithms)?;
        verify_server_name(&server, name)?;
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self.usual(server, others, name, now);
        let may_be_named = matches!(
            usual,
            Err(Error::InvalidCertificate(CertificateError::Other(_) | CertificateError::UnknownIssuer))
        );
        if !may_be_named {
            return usual;
        }
        match wrong_by_itself(server, now, KeyUsage::server_auth(), &self.named.provider) {
            Some(webpki::Error::CaUsedAsEndEntity | webpki::Error::UnknownIssuer) => {}
            _ => return usual,
        }
        let wrong_by = |what| Err(Error::InvalidCertificate(what));
        if !self.named.has(server) {
            return wrong_by(CertificateError::UnknownIssuer);
        }
        let certificate = EndEntityCert::try_from(server);
        match certificate.and_then(|it| it.verify_is_valid_for_subject_name(name)) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(_) => wrong_by(CertificateError::NotValidForName),
        }
    }

    // TLS 1.2 is not compiled in, so this is never asked for.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::HandshakeNotComplete)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.named.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.named.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What a server says of clients' certificates, as `Trust` of servers' but for the name: that is read by others.
pub struct Clients {
    named: Named,
    names: Vec<DistinguishedName>,
}

impl Clients {
    /// `None` where no certificate can be read.
    pub fn new(authorities: &[u8], provider: &Arc<CryptoProvider>) -> Option<Arc<Clients>> {
        let named = Named::read(authorities, provider)?;
        let mut all = RootCertStore::empty();
        all.add_parsable_certificates(named.certificates.iter().cloned());
        Some(Arc::new(Clients { named, names: all.subjects() }))
    }

    /// Of all that is in the file, which clients are told: some choose by it what they show.
    pub fn names(&self) -> &[DistinguishedName] {
        &self.names
    }

    pub fn judge(
        &self,
        client: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Failure> {
        let certificate = EndEntityCert::try_from(client).map_err(|wrong| match wrong {
            webpki::Error::UnsupportedCertVersion => Failure::Version1,
            _ => Failure::BadPeerCertificate,
        })?;
        let (usage, roots) = (KeyUsage::client_auth(), &self.named.authorities.roots);
        let algorithms = self.named.algorithms();
        let usual = certificate.verify_for_usage(algorithms, roots, others, now, usage, None, None);
        let Err(wrong) = usual else { return Ok(()) };
        match wrong_by_itself(client, now, usage, &self.named.provider) {
            Some(webpki::Error::CaUsedAsEndEntity | webpki::Error::UnknownIssuer)
                if self.named.has(client) =>
            {
                Ok(())
            }
            Some(webpki::Error::CaUsedAsEndEntity) => Err(Failure::UnknownIssuer),
            _ => Err(failure_by(&wrong)),
        }
    }
}

fn failure_by(wrong: &webpki::Error) -> Failure {
    match wrong {
        webpki::Error::CertExpired { .. } | webpki::Error::InvalidCertValidity => Failure::Expired,
        webpki::Error::CertNotValidYet { .. } => Failure::NotValidYet,
        webpki::Error::UnknownIssuer => Failure::UnknownIssuer,
        _ => Failure::BadPeerCertificate,
    }
}
