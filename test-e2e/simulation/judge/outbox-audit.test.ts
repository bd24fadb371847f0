import type { CollectedMessage, EventId } from '@onceward/core/ports'
import { beforeEach, describe, expect, it } from 'vitest'
import { OutboxRows } from '../stores/outbox-rows.ts'
import { OutboxAudit } from './outbox-audit.ts'

const EVENT = 'event' as EventId

const message = (text: string, more: Partial<CollectedMessage> = {}): CollectedMessage => ({
  ...{ id: `id-of-${text}`, to: 'sink', key: 'k', event: EVENT, delayMs: 0 },
  ...{ type: 'sink', source: 'judge', headers: {}, isJson: true },
  payload: Buffer.from(JSON.stringify(text)),
  ...more,
})

const [first, second] = [message('first'), message('second')]

let audit: OutboxAudit
let rows: OutboxRows
let violations: string[]
beforeEach(() => {
  violations = []
  rows = new OutboxRows()
  audit = new OutboxAudit((why) => void violations.push(why))
})

function commit(...sends: readonly CollectedMessage[]): void {
  const texts = sends.map(({ payload }) => JSON.parse(Buffer.from(payload).toString()) as string)
  audit.committed(sends, new Map([[EVENT, texts]]))
  rows.insert(sends, 0)
}

const publish = (of: CollectedMessage, position: number): void =>
  audit.published({ ...of, position: String(position) }, rows)

const remove = (of: CollectedMessage, position: number): void =>
  audit.removed(rows.remove([{ id: of.id, position: String(position) }]))

describe('the judge of the outbox', () => {
  it('finds nothing in copies, in a refused message behind which its key waits, and in a dead one', () => {
    commit(first, second)
    publish(first, 1)
    publish(first, 1)
    remove(first, 1)
    for (const _ of [1, 2, 3]) audit.refused(second)
    rows.fail({ id: second.id, position: '2' }, { attempts: 1, dueAtMs: 0 })
    audit.died(rows.rows.get(2) as never, 3)
    audit.ended(rows)
    expect(violations).toEqual([])
  })

  // Each rule with a history that breaks it.
  it.each<readonly [rule: string, forge: () => void]>([
    [
      'a message of a run without a commit',
      () => audit.committed([message('first', { event: 'another' })], new Map()),
    ],
    [
      'committed first,second with the messages first',
      () => audit.committed([first], new Map([[EVENT, ['first', 'second']]])),
    ],
    [
      'first was sent with another id',
      () => {
        commit(first)
        commit(message('first', { id: 'other' }))
      },
    ],
    [
      'second has the id of another',
      () => {
        commit(first)
        commit(message('second', { id: first.id }))
      },
    ],
    ['first was published without a commit', () => publish(first, 1)],
    [
      'second overtook first',
      () => {
        commit(first, second)
        publish(second, 2)
      },
    ],
    [
      'two effects of first behind a guard',
      () => {
        commit(first)
        publish(first, 1)
        commit(message('first', { id: 'other' }))
        publish(message('first', { id: 'other' }), 2)
      },
    ],
    [
      'first was deleted unpublished',
      () => {
        commit(first)
        remove(first, 1)
      },
    ],
    [
      'first is dead after 1 refusals',
      () => {
        commit(first)
        audit.refused(first)
        audit.died(rows.rows.get(1) as never, 3)
      },
    ],
    [
      'first is counted while everything fails',
      () => {
        commit(first, second)
        audit.calls('relay', [second])([undefined])
        audit.calls('relay', [first])([{ unknown: new Error('down') }])
        audit.counted('relay', { attempt: 0, id: first.id })
      },
    ],
    [
      'first is lost',
      () => {
        commit(first)
        rows.rows.clear()
        audit.ended(rows)
      },
    ],
  ])('says: %s', (rule, forge) => {
    forge()
    expect(violations).toContain(rule)
  })
})
