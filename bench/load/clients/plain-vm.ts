// Executes one transaction in litesvm, for the time of a start. Thread: a process of its own.
import { serveBench } from '../../../test/testkit/process.ts'
import { fundedVm, transfers } from '../../lib/transfers.ts'

serveBench({
  first() {
    const [bytes] = transfers(new Uint8Array(32), 1)
    return 'err' in fundedVm().sendVersionedTransaction(bytes!) ? 0 : 1
  },
})
