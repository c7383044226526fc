// Base58 as functions of DuckDB that are computed by Node, for analysts of Solana's data.
// Thread: main of a query process, while DuckDB's threads wait for it.
import type { DuckDBConnection } from '@duckdb/node-api'
import { DuckDBScalarFunction } from '@duckdb/node-api/lib/DuckDBScalarFunction.js'
import { ANY, BLOB, VARCHAR } from '@duckdb/node-api/lib/DuckDBType.js'
import { decodeBase58, encodeBase58 } from '../../chain/solana/base58.ts'

/** Names of the functions, which functions.sql uses. */
export const base58Names = ['base58_text', 'base58_bytes']

/** The time grows with the square of the length; a transaction is shorter. */
const bytesMax = 1_683

type Text = { readonly bytes: Uint8Array } | string

const bytesOf = (value: Text): Uint8Array =>
  typeof value === 'string' ? Buffer.from(value) : value.bytes

export function registerBase58(connection: DuckDBConnection): void {
  const text = (value: Text) => encodeBase58(bytesOf(value))
  const bytes = (value: Text) => {
    const decoded = decodeBase58(Buffer.from(bytesOf(value)).toString('latin1'))
    return decoded === null ? null : { bytes: decoded }
  }
  for (const [name, returnType, compute] of [
    ['base58_text', VARCHAR, text],
    ['base58_bytes', BLOB, bytes],
  ] as const)
    connection.registerScalarFunction(
      DuckDBScalarFunction.create({
        name,
        returnType,
        parameterTypes: [ANY],
        mainFunction: (info, input, output) => {
          const values = input.getColumnVector(0)
          for (let row = 0; row < input.rowCount; row += 1) {
            // Reason for the cast: functions.sql calls it with a String, a VARCHAR or a BLOB.
            const value = values.getItem(row) as Text | null
            if (value !== null && bytesOf(value).length > bytesMax)
              return info.setError(`not answered here: Base58 of more than ${bytesMax} bytes`)
            output.setItem(row, value === null ? null : compute(value))
          }
          output.flush()
        },
      }),
    )
}
