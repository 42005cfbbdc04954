module forge

go 1.18
