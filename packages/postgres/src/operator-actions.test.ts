import { describe, expect, it, test } from 'vitest'
import { deadLetterRow, ID } from './fixtures/dead-letter-row.ts'
import { scriptedPool } from './fixtures/scripted-pool.ts'
import { actOn, isFreed, isOpen, readDeadLetter, type Untouched } from './operator-actions.ts'
import type { DeadLetterRow } from './statements/dead-letters.ts'
import { createStatements } from './statements/index.ts'

const statements = createStatements()
const coded = (code: string): Error => Object.assign(new Error(code), { code })

/** An action on this answer of the database, with what came of it and what it was given. */
async function acted(answers: Parameters<typeof scriptedPool>[0], answer?: Untouched, id = ID) {
  const pool = scriptedPool(answers)
  const given: DeadLetterRow[] = []
  const act = async (_client: unknown, row: DeadLetterRow): Promise<Untouched | undefined> => {
    given.push(row)
    return answer
  }
  const why = await actOn({ pool, statements, act }, id)
  return { given, why, transactions: pool.transactions }
}

describe('an action on a dead letter', () => {
  it('is decided by the row as it is read under its lock, in a bounded wait', async () => {
    const row = deadLetterRow()
    const { given, transactions, why } = await acted({ readEvent: [[row]] })
    expect([given, why]).toEqual([[row], undefined])
    const names = transactions.map((asked) => asked.map(([name]) => name))
    const before = ['boundOperator', 'lockEventRow', 'lockRefusedRow']
    expect(names).toEqual([[...before, 'readEvent', 'commit']])
    expect(statements.boundOperator).toContain("set_config('lock_timeout', '15000', true)")
    expect(transactions[0]?.slice(1, 4)).toEqual([
      ...[['lockEventRow', ID] as const, ['lockRefusedRow', ID] as const],
      ['readEvent', ID],
    ])
  })

  it('takes a refused message where there is no event of this id', async () => {
    const row = deadLetterRow({ kind: 'refused' })
    const { given, transactions, why } = await acted({ readRefused: [[row]] })
    expect([given, why]).toEqual([[row], undefined])
    expect(transactions.flat()).toContainEqual(['readRefused', ID])
  })

  it('answers what the action answers', async () => {
    const { why } = await acted({ readEvent: [[deadLetterRow()]] }, 'broker-key')
    expect(why).toBe('broker-key')
  })

  test.each<[string, Partial<DeadLetterRow>, Untouched]>([
    ['whose letter is being published is held', { publishing: true }, 'held'],
    ['whose body was not stored is left', { body: '', bodyBytes: 9 }, 'not-stored'],
  ])('one %s', async (_what, over, why) => {
    const answers = { readEvent: [[deadLetterRow(over)]] }
    expect(await acted(answers)).toMatchObject({ given: [], why })
  })

  test.each<[Untouched, string | undefined]>([
    ['done', 'd'],
    ['not-dead', 'r'],
    ['not-dead', 'w'],
    ['unknown', 'x'],
    ['unknown', undefined],
  ])('is %s for an event in the state %s that is no open dead letter', async (why, state) => {
    const classify = [state === undefined ? [] : [{ state }]]
    const discarded = { readEvent: [[deadLetterRow({ discarded: true })]], classify }
    expect(await acted(discarded)).toMatchObject({ given: [], why })
    const { given, transactions, why: ofNone } = await acted({ classify })
    expect([given, ofNone]).toEqual([[], why])
    expect(transactions.flat()).toContainEqual(['classify', `{${ID}}`])
  })

  it.each(['', 'no id', `x${ID}`, `${ID}0`, ID.replaceAll('-', '')])(
    'does not ask the database for the invalid id %j',
    async (id) => {
      const answers = { readEvent: [[deadLetterRow()]] }
      expect(await acted(answers, undefined, id)).toEqual({
        ...{ given: [], why: 'unknown', transactions: [] },
      })
      const client = await scriptedPool(answers).connect()
      expect(await readDeadLetter(client, statements, id)).toBeUndefined()
    },
  )

  it('is held while the row stays locked, and every other error comes out', async () => {
    const { why } = await acted({ lockEventRow: [coded('55P03')] })
    expect(why).toBe('held')
    const defect = coded('23514')
    await expect(acted({ lockEventRow: [defect] })).rejects.toBe(defect)
  })
})

test.each<[string, Partial<DeadLetterRow>, boolean, boolean]>([
  ['a buried event', {}, true, false],
  ['one that was discarded', { discarded: true }, false, false],
  ['one that was replayed', { state: 'w', reason: null }, false, false],
  ['one that runs', { state: 'r', reason: null }, false, false],
  ['one whose message was sent and not confirmed', { state: 'w' }, true, true],
  ['a refused message', { kind: 'refused' }, true, false],
  ['one that was sent and not confirmed', { kind: 'refused', replay: true }, true, true],
  ['one that is replayed', { kind: 'refused', replay: true, parked: true }, false, false],
])('%s: whether an operator can act on it, and whether it was requeued', (_what, over, ...is) => {
  const row = deadLetterRow(over)
  expect([isOpen(row), isFreed(row)]).toEqual(is)
})
