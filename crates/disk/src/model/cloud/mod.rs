//! x
/// x
pub struct Cloud;
/// x
pub struct CloudParameters;
