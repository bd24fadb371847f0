// @module-tag nightly
import { BROKER_NAMES } from '../brokers/index.ts'
import { describeProofs } from './suite.ts'

for (const broker of BROKER_NAMES) describeProofs(broker)
