import {
  AddressLookupTableProgram,
  BPF_LOADER_PROGRAM_ID,
  PublicKey,
  SystemProgram,
} from '@solana/web3.js'
import { describe } from 'vitest'
import { type bytes, itShows, key, raw, u32 } from '../../../../testkit/instruction-json.ts'

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
      'createAccount',
      '{lamports:5,newAccount:k2,owner:k3,source:k1,space:6}',
    ],
    [
      SystemProgram.assign({ accountPubkey: source, programId: owner }),
      'assign',
      '{account:k1,owner:k3}',
    ],
    [
      SystemProgram.transfer({ fromPubkey: source, toPubkey: newAccount, lamports: u64Max }),
      'transfer',
      '{destination:k2,lamports:18446744073709551615,source:k1}',
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
      'createAccountWithSeed',
      '{base:k4,lamports:5,newAccount:k2,owner:k3,seed:"grün",source:k1,space:6}',
      { accounts: 2 },
    ],
    [
      SystemProgram.nonceAdvance({ noncePubkey: key(1), authorizedPubkey: key(2) }),
      'advanceNonce',
      '{nonceAccount:k1,nonceAuthority:k2,recentBlockhashesSysvar:recentBlockhashes}',
    ],
    [
      SystemProgram.nonceWithdraw({
        noncePubkey: key(1),
        toPubkey: key(3),
        lamports: 7,
        authorizedPubkey: key(2),
      }),
      'withdrawFromNonce',
      `{destination:k3,lamports:7,nonceAccount:k1,nonceAuthority:k2,
        recentBlockhashesSysvar:recentBlockhashes,rentSysvar:rent}`,
    ],
    [
      SystemProgram.nonceInitialize({ noncePubkey: key(1), authorizedPubkey: key(2) }),
      'initializeNonce',
      `{nonceAccount:k1,nonceAuthority:k2,recentBlockhashesSysvar:recentBlockhashes,
        rentSysvar:rent}`,
    ],
    [
      SystemProgram.nonceAuthorize({
        noncePubkey: key(1),
        authorizedPubkey: key(2),
        newAuthorizedPubkey: key(3),
      }),
      'authorizeNonce',
      '{newAuthorized:k3,nonceAccount:k1,nonceAuthority:k2}',
    ],
    [
      SystemProgram.allocate({ accountPubkey: source, space: 9 }),
      'allocate',
      '{account:k1,space:9}',
    ],
    [
      SystemProgram.allocate({
        accountPubkey: source,
        basePubkey: key(2),
        seed: 's',
        space: 9,
        programId: owner,
      }),
      'allocateWithSeed',
      '{account:k1,base:k2,owner:k3,seed:s,space:9}',
    ],
    [
      SystemProgram.assign({
        accountPubkey: source,
        basePubkey: key(2),
        seed: 's',
        programId: owner,
      }),
      'assignWithSeed',
      '{account:k1,base:k2,owner:k3,seed:s}',
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
      'transferWithSeed',
      '{destination:k4,lamports:8,source:k1,sourceBase:k2,sourceOwner:k3,sourceSeed:s}',
    ],
    [system(1, 12), 'upgradeNonce', '{nonceAccount:k1}'],
    [
      system(2, 13, 5n, 6n, owner),
      'createAccountAllowPrefund',
      '{lamports:5,newAccount:k1,owner:k3,source:k2,space:6}',
    ],
    [
      // Nothing is moved, so no source is needed, nor shown.
      system(2, 13, 0n, 6n, owner),
      'createAccountAllowPrefund',
      '{newAccount:k1,owner:k3,space:6}',
      { accounts: 1 },
    ],
  ])

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
      'createLookupTable',
      `{bumpSeed:${created.data.at(-1)},lookupTableAccount:k1,lookupTableAuthority:k2,
        payerAccount:k3,
        recentSlot:77,systemProgram:systemProgram}`,
    ],
    [
      AddressLookupTableProgram.freezeLookupTable(tableKeys),
      'freezeLookupTable',
      '{lookupTableAccount:k1,lookupTableAuthority:k2}',
    ],
    [
      AddressLookupTableProgram.extendLookupTable({
        ...tableKeys,
        payer: key(3),
        addresses: [key(4), key(5)],
      }),
      'extendLookupTable',
      `{lookupTableAccount:k1,lookupTableAuthority:k2,newAddresses:[k4,k5],payerAccount:k3,
        systemProgram:systemProgram}`,
      { accounts: 2 },
    ],
    [
      // The payer is shown with the system program only.
      raw(AddressLookupTableProgram.programId, 3, u32(2), 1n, key(4)),
      'extendLookupTable',
      '{lookupTableAccount:k1,lookupTableAuthority:k2,newAddresses:[k4]}',
      { accounts: 2 },
    ],
    [
      AddressLookupTableProgram.deactivateLookupTable(tableKeys),
      'deactivateLookupTable',
      '{lookupTableAccount:k1,lookupTableAuthority:k2}',
    ],
    [
      AddressLookupTableProgram.closeLookupTable({ ...tableKeys, recipient: key(3) }),
      'closeLookupTable',
      '{lookupTableAccount:k1,lookupTableAuthority:k2,recipient:k3}',
    ],
  ])

  itShows('bpf-loader', [
    [
      raw(BPF_LOADER_PROGRAM_ID, 1, u32(0), u32(9), 3n, 1, 2, 3),
      'write',
      '{account:k1,bytes:AQID,offset:9}',
    ],
    [raw(BPF_LOADER_PROGRAM_ID, 2, u32(1)), 'finalize', '{account:k1}'],
  ])

  itShows('bpf-upgradeable-loader', [
    [loader(2, 0), 'initializeBuffer', '{account:k1,authority:k2}', { accounts: 1 }],
    [loader(1, 0), 'initializeBuffer', '{account:k1}'],
    [loader(2, 1, u32(9), 3n, 1, 2, 3), 'write', '{account:k1,authority:k2,bytes:AQID,offset:9}'],
    [
      loader(8, 2, 4096n),
      'deployWithMaxDataLen',
      `{authority:k8,bufferAccount:k4,clockSysvar:k6,maxDataLen:4096,payerAccount:k1,
        programAccount:k3,programDataAccount:k2,rentSysvar:k5,systemProgram:k7}`,
    ],
    [
      loader(7, 3),
      'upgrade',
      `{authority:k7,bufferAccount:k3,clockSysvar:k6,programAccount:k2,
        programDataAccount:k1,rentSysvar:k5,spillAccount:k4}`,
    ],
    [loader(3, 4), 'setAuthority', '{account:k1,authority:k2,newAuthority:k3}', { accounts: 2 }],
    [loader(2, 4), 'setAuthority', '{account:k1,authority:k2,newAuthority:null}'],
    [
      loader(4, 5),
      'close',
      '{account:k1,authority:k3,programAccount:k4,recipient:k2}',
      { accounts: 3 },
    ],
    [loader(3, 5), 'close', '{account:k1,authority:k3,programAccount:null,recipient:k2}'],
    [
      loader(4, 6, u32(512)),
      'extendProgram',
      `{additionalBytes:512,payerAccount:k4,programAccount:k2,programDataAccount:k1,
        systemProgram:k3}`,
      { accounts: 2 },
    ],
    [
      loader(2, 6, u32(512)),
      'extendProgram',
      `{additionalBytes:512,payerAccount:null,programAccount:k2,programDataAccount:k1,
        systemProgram:null}`,
    ],
    [loader(3, 7), 'setAuthorityChecked', '{account:k1,authority:k2,newAuthority:k3}'],
    [loader(3, 8), 'migrate', '{authority:k3,programAccount:k2,programDataAccount:k1}'],
    [
      loader(4, 9, u32(512)),
      'extendProgramChecked',
      `{additionalBytes:512,authority:k3,payerAccount:null,programAccount:k2,
        programDataAccount:k1,systemProgram:k4}`,
      { accounts: 3 },
    ],
  ])
})
