import type { StepName } from './plan.ts'
import type { Step } from './playing.ts'
import { OTHER_STEPS } from './steps-other.ts'
import { SQL_STEPS } from './steps-sql.ts'
import { TRANSACTION_STEPS } from './steps-transaction.ts'

export const STEPS: Readonly<Record<StepName, Step>> = {
  ...SQL_STEPS,
  ...TRANSACTION_STEPS,
  ...OTHER_STEPS,
}
