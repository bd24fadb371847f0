import { expect, test } from 'vitest'
import type { Partition } from '../../offsets.ts'
import { Assignment } from './assignment.ts'

const of = (...numbers: readonly number[]): readonly Partition[] =>
  numbers.map((partition) => ({ topic: 'orders', partition }))

/** An assignment with what it tells. The test says when partitions that came are read. */
function assigning(): { assignment: Assignment; told: string[]; read: () => void } {
  const told: string[] = []
  const reading = Promise.withResolvers<void>()
  const numbers = (partitions: readonly Partition[]): string =>
    partitions.map(({ partition }) => partition).join()
  const assignment = new Assignment({
    onLost: (partitions) => void told.push(`lost ${numbers(partitions)}`),
    onAssigned: async (partitions, isNewMember) => {
      told.push(`came ${numbers(partitions)}${isNewMember ? ' to a new member' : ''}`)
      await reading.promise
      told.push(`read ${numbers(partitions)}`)
    },
  })
  return { assignment, told, read: reading.resolve }
}

test('a change has what went and what came; a new member has lost all that it had', () => {
  const { assignment } = assigning()
  expect(assignment.change('m-1', of(0, 1))).toEqual({
    ...{ gone: [], came: of(0, 1), isNewMember: false },
  })
  expect(assignment.change('m-1', of(1, 2))).toEqual({
    ...{ gone: of(0), came: of(2), isNewMember: false },
  })
  expect(assignment.change('m-2', of(2))).toEqual({
    ...{ gone: of(1, 2), came: of(2), isNewMember: true },
  })
  expect(assignment.owned).toEqual(of(2))
})

// Otherwise its batch stayed with a member that does not have the partition, and no offset of the member was committed any more.
test('a partition that goes while its assignment is read is told as lost when it was read', async () => {
  const { assignment, told, read } = assigning()
  assignment.tell(assignment.change('m-1', of(0, 1)))
  await Promise.resolve()
  assignment.tell(assignment.change('m-1', of(1)))
  read()
  await assignment.told
  expect(told).toEqual(['came 0,1', 'read 0,1', 'lost 0', 'came ', 'read '])
})

test('what went before its turn is not told as come', async () => {
  const { assignment, told, read } = assigning()
  assignment.tell(assignment.change('m-1', of(0)))
  assignment.tell(assignment.change('m-1', of(0, 1, 2)))
  assignment.tell(assignment.change('m-2', of(2)))
  read()
  await assignment.told
  expect(told).toEqual([
    ...['came ', 'read ', 'came 2', 'read 2'],
    ...['lost 0,1,2', 'came 2 to a new member', 'read 2'],
  ])
})
