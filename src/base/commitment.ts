// Solana's commitments, numbered as in geyser: a higher one includes the lower ones.
export const Commitment = { processed: 0, confirmed: 1, finalized: 2 } as const
export type Commitment = (typeof Commitment)[keyof typeof Commitment]

export const allCommitments = Object.values(Commitment)

/** Names on the wire, indexed by commitment. */
export const commitmentNames = ['processed', 'confirmed', 'finalized'] as const

/** Null when it is not a name of a commitment. */
export function commitmentNamed(name: unknown): Commitment | null {
  const index = (commitmentNames as readonly unknown[]).indexOf(name)
  return isCommitment(index) ? index : null
}

export function isCommitment(value: unknown): value is Commitment {
  return value === 0 || value === 1 || value === 2
}
