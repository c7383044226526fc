import {
  AddressLookupTableProgram,
  BPF_LOADER_PROGRAM_ID,
  PublicKey,
  SYSVAR_RECENT_BLOCKHASHES_PUBKEY,
  SYSVAR_RENT_PUBKEY,
  SystemProgram,
} from '@solana/web3.js'
import { describe } from 'vitest'
import { type bytes, itShows, key, raw, u32 } from '../../../testkit/instruction-json.ts'

const blockhashes = SYSVAR_RECENT_BLOCKHASHES_PUBKEY.toBase58()
const rent = SYSVAR_RENT_PUBKEY.toBase58()
const systemProgram = SystemProgram.programId.toBase58()
const upgradeable = new PublicKey('BPFLoaderUpgradeab1e11111111111111111111111')
const [source, newAccount, owner] = [key(1), key(2), key(3)]
const system = (accounts: number, tag: number, ...data: Parameters<typeof bytes>) =>
  raw(SystemProgram.programId, accounts, u32(tag), ...data)
const loader = (accounts: number, tag: number, ...data: Parameters<typeof bytes>) =>
  raw(upgradeable, accounts, u32(tag), ...data)
const u64Max = 2n ** 64n - 1n

describe('jsonParsed instructions of native programs', () => {
  itShows('system', [
    [
      SystemProgram.createAccount({
        fromPubkey: source,
        newAccountPubkey: newAccount,
        lamports: 5,
        space: 6,
        programId: owner,
      }),
      {
        type: 'createAccount',
        info: { source: 'k1', newAccount: 'k2', lamports: 5, space: 6, owner: 'k3' },
      },
    ],
    [
      SystemProgram.assign({ accountPubkey: source, programId: owner }),
      { type: 'assign', info: { account: 'k1', owner: 'k3' } },
    ],
    [
      SystemProgram.transfer({ fromPubkey: source, toPubkey: newAccount, lamports: u64Max }),
      { type: 'transfer', info: { source: 'k1', destination: 'k2', lamports: u64Max } },
    ],
    [
      SystemProgram.createAccountWithSeed({
        fromPubkey: source,
        newAccountPubkey: newAccount,
        basePubkey: key(4),
        seed: 'grün',
        lamports: 5,
        space: 6,
        programId: owner,
      }),
      {
        type: 'createAccountWithSeed',
        accounts: 2,
        info: {
          source: 'k1',
          newAccount: 'k2',
          base: 'k4',
          seed: 'grün',
          lamports: 5,
          space: 6,
          owner: 'k3',
        },
      },
    ],
    [
      SystemProgram.nonceAdvance({ noncePubkey: key(1), authorizedPubkey: key(2) }),
      {
        type: 'advanceNonce',
        info: { nonceAccount: 'k1', recentBlockhashesSysvar: blockhashes, nonceAuthority: 'k2' },
      },
    ],
    [
      SystemProgram.nonceWithdraw({
        noncePubkey: key(1),
        toPubkey: key(3),
        lamports: 7,
        authorizedPubkey: key(2),
      }),
      {
        type: 'withdrawFromNonce',
        info: {
          nonceAccount: 'k1',
          destination: 'k3',
          recentBlockhashesSysvar: blockhashes,
          rentSysvar: rent,
          nonceAuthority: 'k2',
          lamports: 7,
        },
      },
    ],
    [
      SystemProgram.nonceInitialize({ noncePubkey: key(1), authorizedPubkey: key(2) }),
      {
        type: 'initializeNonce',
        info: {
          nonceAccount: 'k1',
          recentBlockhashesSysvar: blockhashes,
          rentSysvar: rent,
          nonceAuthority: 'k2',
        },
      },
    ],
    [
      SystemProgram.nonceAuthorize({
        noncePubkey: key(1),
        authorizedPubkey: key(2),
        newAuthorizedPubkey: key(3),
      }),
      {
        type: 'authorizeNonce',
        info: { nonceAccount: 'k1', nonceAuthority: 'k2', newAuthorized: 'k3' },
      },
    ],
    [
      SystemProgram.allocate({ accountPubkey: source, space: 9 }),
      { type: 'allocate', info: { account: 'k1', space: 9 } },
    ],
    [
      SystemProgram.allocate({
        accountPubkey: source,
        basePubkey: key(2),
        seed: 's',
        space: 9,
        programId: owner,
      }),
      {
        type: 'allocateWithSeed',
        info: { account: 'k1', base: 'k2', seed: 's', space: 9, owner: 'k3' },
      },
    ],
    [
      SystemProgram.assign({
        accountPubkey: source,
        basePubkey: key(2),
        seed: 's',
        programId: owner,
      }),
      { type: 'assignWithSeed', info: { account: 'k1', base: 'k2', seed: 's', owner: 'k3' } },
    ],
    [
      SystemProgram.transfer({
        fromPubkey: source,
        basePubkey: key(2),
        toPubkey: key(4),
        lamports: 8,
        seed: 's',
        programId: owner,
      }),
      {
        type: 'transferWithSeed',
        info: {
          source: 'k1',
          sourceBase: 'k2',
          destination: 'k4',
          lamports: 8,
          sourceSeed: 's',
          sourceOwner: 'k3',
        },
      },
    ],
    [system(1, 12), { type: 'upgradeNonce', info: { nonceAccount: 'k1' } }],
    [
      system(2, 13, 5n, 6n, owner),
      {
        type: 'createAccountAllowPrefund',
        info: { newAccount: 'k1', source: 'k2', lamports: 5, space: 6, owner: 'k3' },
      },
    ],
    [
      // Nothing is moved, so no source is needed, nor shown.
      system(2, 13, 0n, 6n, owner),
      {
        type: 'createAccountAllowPrefund',
        accounts: 1,
        info: { newAccount: 'k1', space: 6, owner: 'k3' },
      },
    ],
  ])

  const table = { lookupTableAccount: 'k1', lookupTableAuthority: 'k2' }
  const tableKeys = { lookupTable: key(1), authority: key(2) }
  const [created] = AddressLookupTableProgram.createLookupTable({
    authority: key(2),
    payer: key(3),
    recentSlot: 77,
  })
  created.keys[0]!.pubkey = key(1)
  itShows('address-lookup-table', [
    [
      created,
      {
        type: 'createLookupTable',
        info: {
          ...table,
          payerAccount: 'k3',
          systemProgram,
          recentSlot: 77,
          bumpSeed: created.data.at(-1),
        },
      },
    ],
    [
      AddressLookupTableProgram.freezeLookupTable(tableKeys),
      { type: 'freezeLookupTable', info: table },
    ],
    [
      AddressLookupTableProgram.extendLookupTable({
        ...tableKeys,
        payer: key(3),
        addresses: [key(4), key(5)],
      }),
      {
        type: 'extendLookupTable',
        accounts: 2,
        info: { ...table, payerAccount: 'k3', systemProgram, newAddresses: ['k4', 'k5'] },
      },
    ],
    [
      // The payer is shown with the system program only.
      raw(AddressLookupTableProgram.programId, 3, u32(2), 1n, key(4)),
      { type: 'extendLookupTable', accounts: 2, info: { ...table, newAddresses: ['k4'] } },
    ],
    [
      AddressLookupTableProgram.deactivateLookupTable(tableKeys),
      { type: 'deactivateLookupTable', info: table },
    ],
    [
      AddressLookupTableProgram.closeLookupTable({ ...tableKeys, recipient: key(3) }),
      { type: 'closeLookupTable', info: { ...table, recipient: 'k3' } },
    ],
  ])

  itShows('bpf-loader', [
    [
      raw(BPF_LOADER_PROGRAM_ID, 1, u32(0), u32(9), 3n, 1, 2, 3),
      { type: 'write', info: { account: 'k1', offset: 9, bytes: 'AQID' } },
    ],
    [raw(BPF_LOADER_PROGRAM_ID, 2, u32(1)), { type: 'finalize', info: { account: 'k1' } }],
  ])

  const program = { programDataAccount: 'k1', programAccount: 'k2' }
  itShows('bpf-upgradeable-loader', [
    [
      loader(2, 0),
      { type: 'initializeBuffer', accounts: 1, info: { account: 'k1', authority: 'k2' } },
    ],
    [loader(1, 0), { type: 'initializeBuffer', info: { account: 'k1' } }],
    [
      loader(2, 1, u32(9), 3n, 1, 2, 3),
      { type: 'write', info: { account: 'k1', authority: 'k2', offset: 9, bytes: 'AQID' } },
    ],
    [
      loader(8, 2, 4096n),
      {
        type: 'deployWithMaxDataLen',
        info: {
          payerAccount: 'k1',
          programDataAccount: 'k2',
          programAccount: 'k3',
          bufferAccount: 'k4',
          rentSysvar: 'k5',
          clockSysvar: 'k6',
          systemProgram: 'k7',
          authority: 'k8',
          maxDataLen: 4096,
        },
      },
    ],
    [
      loader(7, 3),
      {
        type: 'upgrade',
        info: {
          ...program,
          bufferAccount: 'k3',
          spillAccount: 'k4',
          rentSysvar: 'k5',
          clockSysvar: 'k6',
          authority: 'k7',
        },
      },
    ],
    [
      loader(3, 4),
      {
        type: 'setAuthority',
        accounts: 2,
        info: { account: 'k1', authority: 'k2', newAuthority: 'k3' },
      },
    ],
    [
      loader(2, 4),
      { type: 'setAuthority', info: { account: 'k1', authority: 'k2', newAuthority: null } },
    ],
    [
      loader(4, 5),
      {
        type: 'close',
        accounts: 3,
        info: { account: 'k1', recipient: 'k2', authority: 'k3', programAccount: 'k4' },
      },
    ],
    [
      loader(3, 5),
      {
        type: 'close',
        info: { account: 'k1', recipient: 'k2', authority: 'k3', programAccount: null },
      },
    ],
    [
      loader(4, 6, u32(512)),
      {
        type: 'extendProgram',
        accounts: 2,
        info: { ...program, systemProgram: 'k3', payerAccount: 'k4', additionalBytes: 512 },
      },
    ],
    [
      loader(2, 6, u32(512)),
      {
        type: 'extendProgram',
        info: { ...program, systemProgram: null, payerAccount: null, additionalBytes: 512 },
      },
    ],
    [
      loader(3, 7),
      {
        type: 'setAuthorityChecked',
        info: { account: 'k1', authority: 'k2', newAuthority: 'k3' },
      },
    ],
    [loader(3, 8), { type: 'migrate', info: { ...program, authority: 'k3' } }],
    [
      loader(4, 9, u32(512)),
      {
        type: 'extendProgramChecked',
        accounts: 3,
        info: {
          ...program,
          authority: 'k3',
          systemProgram: 'k4',
          payerAccount: null,
          additionalBytes: 512,
        },
      },
    ],
  ])
})
