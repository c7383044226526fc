// Recognises the challenge that a destination of ShredStream sends back to prove its address.

/** 8 bytes of name, 32 hexadecimal digits. */
const challengeShape = /^SLUICE1 [0-9a-f]{32}$/
const challengeBytes = 40

export function isChallenge(packet: Uint8Array): boolean {
  if (packet.length !== challengeBytes) return false
  return challengeShape.test(Buffer.from(packet).toString('latin1'))
}
