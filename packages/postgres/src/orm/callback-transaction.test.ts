import { describe, expect, it } from 'vitest'
import { openTransaction } from './callback-transaction.ts'

type Callback = (tx: string) => Promise<void>

/** A library that notes what it sends. */
function library({ fails, wraps = false }: { fails?: 'begin' | 'commit'; wraps?: boolean } = {}) {
  const sent: string[] = []
  const run = async (callback: Callback): Promise<void> => {
    if (fails === 'begin') throw new Error('no connection')
    sent.push('begin')
    try {
      await callback('tx')
    } catch (error) {
      sent.push('rollback')
      throw wraps ? new Error('wrapped', { cause: error }) : error
    }
    sent.push('commit')
    if (fails === 'commit') throw Object.assign(new Error('could not serialize'), { code: '40001' })
  }
  return { sent, run }
}

describe('a transaction that takes a callback', () => {
  it('is open until it is committed, and the answer of the library is that of the COMMIT', async () => {
    const { run, sent } = library()
    const transaction = await openTransaction<string>(run)
    expect(transaction.tx).toBe('tx')
    expect(sent).toEqual(['begin'])
    await transaction.commit()
    expect(sent).toEqual(['begin', 'commit'])
    expect(transaction.lost).toBeUndefined()
  })

  it('rejects the commit with the error of the library', async () => {
    const { run } = library({ fails: 'commit' })
    const transaction = await openTransaction<string>(run)
    await expect(transaction.commit()).rejects.toMatchObject({ code: '40001' })
    // The answer was asked for: the transaction was not lost before.
    expect(transaction.lost).toBeUndefined()
  })

  it.each([false, true])(
    'rolls back, and takes no error for its own (wrapped: %s)',
    async (wraps) => {
      const { run, sent } = library({ wraps })
      const transaction = await openTransaction<string>(run)
      await transaction.rollback()
      expect(sent).toEqual(['begin', 'rollback'])
    },
  )

  it('rejects the rollback with another error of the library', async () => {
    const transaction = await openTransaction<string>(async (callback) => {
      await callback('tx').catch(() => undefined)
      throw new Error('the connection ended')
    })
    await expect(transaction.rollback()).rejects.toThrow('the connection ended')
  })

  it('obeys whichever end is asked for first', async () => {
    const { run, sent } = library()
    const transaction = await openTransaction<string>(run)
    await Promise.all([transaction.rollback(), transaction.commit().catch(() => undefined)])
    expect(sent).toEqual(['begin', 'rollback'])
  })

  it('rejects the beginning with the error of the library, also a thrown one', async () => {
    await expect(openTransaction(library({ fails: 'begin' }).run)).rejects.toThrow('no connection')
    const throwing = (): never => {
      throw new TypeError('not connected')
    }
    await expect(openTransaction(throwing)).rejects.toThrow('not connected')
    await expect(openTransaction(async () => undefined)).rejects.toThrow('without calling')
  })

  it('knows that the library gave the transaction up, which is no unhandled rejection', async () => {
    const giveUp = Promise.withResolvers<void>()
    const transaction = await openTransaction<string>((callback) =>
      Promise.race([callback('tx'), giveUp.promise]),
    )
    expect(transaction.lost).toBeUndefined()
    giveUp.reject(new Error('CONNECTION_CLOSED'))
    await expect(transaction.commit()).rejects.toThrow('CONNECTION_CLOSED')
    expect(transaction.lost).toBeUndefined()
  })

  it('was lost before its end was asked for', async () => {
    const giveUp = Promise.withResolvers<void>()
    const transaction = await openTransaction<string>((callback) =>
      Promise.race([callback('tx'), giveUp.promise]),
    )
    giveUp.reject(undefined)
    await new Promise(setImmediate)
    expect(transaction.lost).toBeInstanceOf(Error)
    await expect(transaction.rollback()).rejects.toBeUndefined()
  })
})
