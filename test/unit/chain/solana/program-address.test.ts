import { Keypair, PublicKey } from '@solana/web3.js'
import { expect, test } from 'vitest'
import { findProgramAddress, isOnCurve } from '../../../../src/chain/solana/program-address.ts'

test('program addresses are those of web3.js', () => {
  for (let round = 0; round < 20; round++) {
    const [seed, program] = [Keypair.generate().publicKey, Keypair.generate().publicKey]
    const seeds = [Buffer.from('metadata'), seed.toBytes()]
    const [address, bump] = PublicKey.findProgramAddressSync(seeds, program)
    expect(findProgramAddress(seeds, program.toBytes())).toEqual({
      address: Buffer.from(address.toBytes()),
      bump,
    })
    expect(isOnCurve(address.toBytes())).toBe(false)
    expect(isOnCurve(seed.toBytes())).toBe(true)
  }
})
