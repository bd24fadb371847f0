import { turnOf } from '@onceward/testing'
import { RIGHT } from './consumers.ts'
import { describeProofs } from './suite.ts'

/** The nightly tests prove the others, here and on every broker. */
const right = RIGHT.filter((_, index) => turnOf(index, { of: RIGHT.length }).tags === undefined)

describeProofs('sqs', { right })
