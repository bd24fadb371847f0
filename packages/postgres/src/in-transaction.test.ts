import { StoreUnavailableError } from '@onceward/core'
import { expect, test, vi } from 'vitest'
import { inTransaction, type PoolClientLike } from './client.ts'

const coded = (code: string): Error => Object.assign(new Error(code), { code })

/** A pool whose connection fails at the statements that are named. */
function poolThat(fails: Readonly<Record<string, Error>> = {}) {
  const sent: string[] = []
  const release = vi.fn<PoolClientLike['release']>()
  const query = async (text: string) => {
    sent.push(text.split(' ', 1)[0] as string)
    const error = fails[text]
    if (error !== undefined) throw error
    return { rows: [text], rowCount: 1 } as never
  }
  return { sent, release, connect: async (): Promise<PoolClientLike> => ({ query, release }) }
}

test('a transaction answers what its work answers, and its connection goes back', async () => {
  const pool = poolThat()
  const found = await inTransaction(pool, (client) => client.query('select'))
  expect(found).toEqual({ rows: ['select'], rowCount: 1 })
  expect(pool.sent).toEqual(['begin', 'select', 'commit'])
  expect(pool.release).toHaveBeenCalledExactlyOnceWith(false)
})

// Red when a connection goes back inside of a transaction, or when one is thrown away for each failed statement.
test.each<[string, Readonly<Record<string, Error>>, boolean]>([
  ['that failed for itself', { select: coded('23514') }, false],
  ['whose role lacks rights', { select: coded('42501') }, true],
  ['on a connection that is inside of another', { select: coded('25P02') }, true],
  ['that was ended by the server', { select: coded('57P01') }, true],
  ['without memory', { select: coded('53200') }, false],
  ['that cannot be rolled back', { select: coded('23514'), rollback: new Error('gone') }, true],
  ['that cannot be committed', { commit: coded('23514') }, false],
])(
  'the connection of a transaction %s is thrown away where it must be',
  async (_what, fails, is) => {
    const pool = poolThat(fails)
    await expect(inTransaction(pool, (client) => client.query('select'))).rejects.toThrow()
    expect(pool.sent.at(-1)).toBe('rollback')
    // Others are tried if only this connection is unfit.
    expect(new Set(pool.release.mock.calls.flat())).toEqual(new Set([is]))
  },
)

test('an outage is typed, and any other error is as it was thrown', async () => {
  const [outage, defect] = [coded('53200'), coded('23514')]
  const failing = (error: Error) =>
    inTransaction(poolThat({ select: error }), (client) => client.query('select'))
  await expect(failing(outage)).rejects.toMatchObject({
    cause: outage,
    message: expect.stringContaining('running a transaction'),
  })
  await expect(failing(outage)).rejects.toBeInstanceOf(StoreUnavailableError)
  await expect(failing(defect)).rejects.toBe(defect)
})

test('a transaction that lost a race runs again', async () => {
  const fails: Record<string, Error> = { select: coded('40001') }
  const pool = poolThat(fails)
  const work = async (client: PoolClientLike): Promise<unknown> => {
    const asking = client.query('select')
    delete fails['select']
    return asking
  }
  expect(await inTransaction(pool, work)).toMatchObject({ rowCount: 1 })
  expect(pool.sent).toEqual(['begin', 'select', 'rollback', 'begin', 'select', 'commit'])
})
