// What differs between versions of agave: one table, for the devnode and for answers from streams.
// A node's minor version selects its shapes; a newer one than those known here has the newest.

export const agaveVersions = ['4.0', '4.1', '4.2', '4.3'] as const
export type AgaveVersion = (typeof agaveVersions)[number]

/** As getVersion answers: the release that was read; the feature set is the first four bytes of
 *  the hash over its features. */
const releases = {
  '4.0': { 'solana-core': '4.0.3', 'feature-set': 1118045235 },
  '4.1': { 'solana-core': '4.1.2', 'feature-set': 2220189554 },
  '4.2': { 'solana-core': '4.2.1', 'feature-set': 565236538 },
  '4.3': { 'solana-core': '4.3.0-beta.2', 'feature-set': 2409014235 },
} as const

/** The minor version of agave 4 that has each of these first. */
const since = {
  /** getVoteAccounts shows `inflationRewardsCommissionBps`; `commission` rounds up from it. */
  commissionBps: 1,
  /** The delegation of a stake account has no `warmupCooldownRate`. */
  stakeWithoutRate: 1,
  /** The stake config account is not parsed. */
  stakeConfigUnparsed: 1,
  /** The rent sysvar has `lamportsPerByte` and nothing else. */
  rentPerByte: 1,
  /** `migrate` and `extendProgramChecked` of the upgradeable loader are not parsed. */
  loaderWithoutMigration: 1,
  /** `initializeV2` of the vote program has the collectors as accounts, and shows BLS keys. */
  voteCollectorAccounts: 1,
  /** getRecentPrioritizationFees computes the rate from the lamports paid, which are rounded up. */
  feeRateOfPaid: 1,
  /** Transactions of version 1 are taken, of 1,232 bytes. */
  transactionV1: 1,
  /** Version 1 is taken in base64 up to 4,096 bytes. */
  transactionV1Long: 2,
  getAgGenesisCert: 2,
  /** Permissioned burns, `batch` and `unwrapLamports` of the token programs are parsed. */
  tokenBatch: 2,
  /** Confidential deposits and withdrawals have `account` and `mint`. */
  confidentialAccount: 2,
  /** The memo program of version 4 is parsed, and its memos are listed. */
  memoV4: 2,
  /** getInflationReward takes at most 32 addresses. */
  inflationRewardLimit: 3,
  /** getAgGenesisCert writes `blockId`, not `block_id`: since 4.3.0-beta.2. */
  certificateBlockId: 3,
  /** Proof accounts of confidential instructions are context states alone. */
  proofContextsOnly: 3,
} as const

/** What a version of agave shows and takes. */
export type Shapes = Readonly<Record<keyof typeof since, boolean>> & {
  readonly agave: AgaveVersion
  readonly release: { readonly 'solana-core': string; readonly 'feature-set': number }
}

export const shapesByVersion = Object.fromEntries(
  agaveVersions.map((agave, minor) => {
    const rows = Object.entries(since).map(([name, first]) => [name, minor >= first])
    return [agave, { ...Object.fromEntries(rows), agave, release: releases[agave] }]
  }),
  // Reason for the cast: fromEntries does not know the names of the rows.
) as Readonly<Record<AgaveVersion, Shapes>>

export const oldestShapes = shapesByVersion['4.0']
export const newestShapes = shapesByVersion['4.3']

/** The shapes of a node, by its version (`4.2.1`); null for an unknown or older one. */
export function shapesOf(version: string): Shapes | null {
  const [major, minor] = numbersOf(version)
  if (major === undefined || minor === undefined || major < 4) return null
  const agave = major > 4 ? undefined : agaveVersions[minor]
  return agave === undefined ? newestShapes : shapesByVersion[agave]
}

/** The lowest of these versions; '' of none. Unknown ones are '' and do not count. */
export function lowestVersion(versions: Iterable<string>): string {
  let lowest = ''
  for (const version of versions)
    if (version !== '' && version !== lowest && (lowest === '' || isLower(version, lowest)))
      lowest = version
  return lowest
}

/** A function of the shapes whose result is computed once for each version. */
export function perVersion<T>(make: (shapes: Shapes) => T): (shapes: Shapes) => T {
  const made = new Map<Shapes, T>()
  return (shapes) => {
    let found = made.get(shapes)
    if (found === undefined) {
      found = make(shapes)
      made.set(shapes, found)
    }
    return found
  }
}

function isLower(a: string, b: string): boolean {
  const [left, right] = [numbersOf(a), numbersOf(b)]
  const at = left.findIndex((number, index) => number !== right[index])
  return at >= 0 && left[at]! < (right[at] ?? 0)
}

/** Major, minor and patch. */
function numbersOf(version: string): number[] {
  return (/^(\d+)\.(\d+)(?:\.(\d+))?/.exec(version) ?? []).slice(1).map((text) => Number(text ?? 0))
}
