// What a validator of the version that the devnode follows calls itself.

/** Agave 4.0; the feature set is the first four bytes of the hash over its features. */
export const solanaVersion = { 'solana-core': '4.0.0', 'feature-set': 1118045235 } as const
