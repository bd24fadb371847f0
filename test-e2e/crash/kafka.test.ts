import { describeCrashes } from './suite.ts'

describeCrashes('kafka')
